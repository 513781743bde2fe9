//! Which client relies on which lock, checked at every moment at which that may change.
//!
//! Two clients may never rely on one key at once. Validity ends by itself. It begins when a lock is
//! given, and it returns when an answer of a node clears a doubt. So a check at these moments finds
//! every overlap. All times are true times, whatever the clocks of clients show.

mod operated;
mod witness;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redlock_core::{
    LockHandle,
    seam::simulation::{claim, numbers},
};
use tokio::sync::Notify;

use super::{
    beliefs::{Basis, Beliefs},
    claims::{Claims, Quiet},
    clock::SimClock,
    log::Log,
    looks::Look,
    tokens::{Call, Given, Tokens},
};

/// All that is known of the holds of one schedule.
#[derive(Debug)]
pub(super) struct Ledger {
    log: Arc<Log>,
    inner: Mutex<Inner>,
    doom: Notify,
}

/// A client that crashes or stops because it was given its turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doomed {
    pub(super) client: usize,
    /// It stops for this long, and does not crash.
    pub(super) stops: bool,
    pub(super) span: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether the next client that is given its turn crashes or stops.
    front: Option<(bool, u64)>,
    doomed: Vec<Doomed>,
    /// How many commands each client has sent.
    sent: BTreeMap<usize, u64>,
    /// How often each client was given its turn.
    turns: BTreeMap<usize, u64>,
    /// Clients that have joined a queue since they were given their turn last.
    joined_again: BTreeSet<usize>,
    beliefs: Beliefs,
    claims: Claims,
    tokens: Tokens,
    /// How many holds of each key have begun.
    begun: BTreeMap<usize, u64>,
    /// Handles that outlive their holds.
    kept: Vec<LockHandle>,
    /// When all keys were deleted last, and until when clients may rely on a lock from before.
    flushed: Option<u64>,
    /// What nodes had when they answered operators: which client asked, for which key, and when.
    looks: Vec<(usize, usize, u64, Look)>,
    /// Keys that an operator was about to take away or delete, and whether any was about to delete it.
    operated: BTreeMap<usize, bool>,
    /// The claims under which the ticks of jobs were done, by their keys.
    jobs: BTreeMap<usize, Vec<u64>>,
}

impl Ledger {
    pub(super) fn new(log: Arc<Log>, nodes: usize) -> Self {
        let inner = Inner { claims: Claims::over(nodes), ..Inner::default() };
        Self { log, inner: Mutex::new(inner), doom: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock was given just now, or a body joined the hold of this `root`.
    pub(super) fn begin(&self, basis: Basis, root: Option<u64>) -> u64 {
        let mut inner = self.lock();
        let claim = claim(&basis.handle);
        let mut is_flushed = false;
        if let Some(claim) = inner.claims.get(claim) {
            claim.live += 1;
            is_flushed = claim.is_excused();
        }
        if root.is_none() && !is_flushed {
            basis.keys.iter().for_each(|key| *inner.begun.entry(*key).or_default() += 1);
        }
        let id = inner.beliefs.add(basis, root, claim);
        self.check(&mut inner);
        id
    }

    /// How often each of these keys was given, not counting locks that were deleted before.
    pub(super) fn begun(&self, keys: &[usize]) -> Vec<u64> {
        let inner = self.lock();
        keys.iter().map(|key| inner.begun.get(key).copied().unwrap_or_default()).collect()
    }

    /// The keys of a hold stay where they are, and go with their ttl. If it was valid, another process may
    /// have it, and nothing is sent in its name once it is `quiet`.
    pub(super) fn left(&self, handle: &LockHandle, quiet: Option<Quiet>) {
        if let Some(claim) = self.lock().claims.get(claim(handle)) {
            claim.left = true;
            claim.quiet = quiet;
        }
    }

    /// A claim of an adopter has the keys of another one from now on. Whether an operator has deleted these before.
    pub(super) fn inherit(&self, before: &LockHandle, adopter: usize, after: &LockHandle) -> bool {
        let mut inner = self.lock();
        let (mut is_flushed, mut is_regranted, mut is_cleared) = (false, false, false);
        if let Some(claim) = inner.claims.get(claim(before)) {
            (is_flushed, is_cleared) = (claim.flushed, claim.cleared);
            is_regranted = claim.regranted;
            claim.adopter = Some((adopter, self::claim(after)));
        }
        inner.claims.get(claim(after)).is_some_and(|claim| {
            claim.flushed |= is_flushed;
            claim.regranted |= is_regranted;
            claim.cleared |= is_cleared;
            claim.is_excused()
        })
    }

    /// How far any wall clock was from the right time, in milliseconds.
    pub(super) fn wall_error(&self) -> u64 {
        self.lock().tokens.wall_error()
    }

    /// A client asks for a key.
    pub(super) fn call(&self, key: usize) -> Call {
        self.lock().tokens.call(key, self.log.now())
    }

    /// A client was given a key, perhaps with a token.
    pub(super) fn given(&self, key: usize, handle: &LockHandle, call: Call) {
        let (Some(token), Some(range)) = (handle.fencing_token(), numbers(handle)) else { return };
        let (token, claim, now) = (token.get(), claim(handle), self.log.now());
        let wrong = {
            let mut inner = self.lock();
            let is_flushed = inner.claims.get(claim).is_some_and(|claim| claim.is_excused());
            inner.tokens.give(Given { key, token, range, claim, call, now, is_flushed })
        };
        if let Some(wrong) = wrong {
            self.log.violation(format!("k{key}, #{:04x}: {wrong}", claim >> 48));
        }
    }

    /// How long a node sits out at least, by the clock of any client.
    pub(super) fn nodes_sit_out(&self, max_ttl: u64, drift: f64) {
        let least = (max_ttl as f64 * (1.0 - drift)) as u64;
        self.lock().tokens.sits_out(least);
    }

    /// A wall clock shows what it shows from now on.
    pub(super) fn wall_is_off(&self, clock: &SimClock) {
        if let Some(error) = clock.wall_error() {
            let error = u64::try_from(error.as_millis()).unwrap_or(u64::MAX / 4);
            self.lock().tokens.wall_is_off_by(error);
        }
    }

    /// A node came back without its counters.
    pub(super) fn restarted_empty(&self) {
        self.lock().tokens.restarted_empty();
    }

    /// A holder stops relying on its lock before it releases it. A handle may be kept for longer.
    pub(super) fn end(&self, id: u64, keep_handle: bool) {
        let mut inner = self.lock();
        self.check(&mut inner);
        let Some(belief) = inner.beliefs.remove(id) else { return };
        if let Some(claim) = inner.claims.get(belief.claim) {
            claim.live -= 1;
        }
        if keep_handle {
            inner.kept.push(belief.basis.handle);
        }
    }

    /// All code of a client that relies on bare guards stops.
    pub(super) fn end_guards(&self, client: usize) {
        let ids: Vec<u64> = {
            let inner = self.lock();
            let guards =
                inner.beliefs.iter().filter(|(_, it)| it.basis.client == client && !it.basis.body);
            guards.map(|(id, _)| id).collect()
        };
        ids.into_iter().for_each(|id| self.end(id, false));
    }

    /// The queue node before a key.
    pub(super) fn queue_node(&self, key: usize) -> usize {
        self.lock().claims.queue_node(key)
    }

    /// A client knows a node under two names.
    pub(super) fn allow_twins(&self, client: usize) {
        self.lock().claims.allow_twins(client);
    }

    /// How many commands a client has sent.
    pub(super) fn sent_by(&self, client: usize) -> u64 {
        self.lock().sent.get(&client).copied().unwrap_or_default()
    }

    /// How often a client was given its turn.
    pub(super) fn turns_of(&self, client: usize) -> u64 {
        self.lock().turns.get(&client).copied().unwrap_or_default()
    }

    /// Whether a client has joined a queue since it was given its turn last.
    pub(super) fn has_joined_again(&self, client: usize) -> bool {
        self.lock().joined_again.contains(&client)
    }

    /// The next client that is given its turn crashes, or stops.
    pub(super) fn doom_next_front(&self, stops: bool, span: u64) {
        self.lock().front = Some((stops, span));
    }

    /// Waits for a client whose turn was its end.
    pub(super) async fn doomed(&self) -> Doomed {
        loop {
            if let Some(doomed) = self.lock().doomed.pop() {
                return doomed;
            }
            self.doom.notified().await;
        }
    }

    /// How many bodies of a client have not ended.
    pub(super) fn bodies(&self, client: usize) -> usize {
        self.lock()
            .beliefs
            .iter()
            .filter(|(_, it)| it.basis.client == client && it.basis.body)
            .count()
    }

    /// An operator deletes all keys. The present holders may go on until `until` at most, and other
    /// clients may overlap with them: no client can prevent that.
    pub(super) fn flush(&self, until: u64) {
        let mut inner = self.lock();
        inner.claims.flush();
        inner.tokens.flushed();
        inner.flushed = Some(until);
    }

    /// Locks were lost under their holders, which may overlap with other clients from now on. Only tokens
    /// are checked then.
    pub(super) fn locks_are_lost(&self) {
        self.lock().claims.flush();
    }

    /// Some of these locks are there again.
    pub(super) fn locks_are_back(&self, node: usize, back: &[u64]) {
        let mut inner = self.lock();
        back.iter().for_each(|claim| inner.claims.is_back(node, *claim));
    }

    /// Checks which clients rely on which locks.
    pub(super) fn look(&self) {
        let mut inner = self.lock();
        self.check(&mut inner);
    }

    fn check(&self, inner: &mut Inner) {
        let Inner { beliefs, claims, flushed, .. } = inner;
        if let Some(until) = *flushed
            && self.log.now() > until
        {
            *flushed = None;
            for (_, belief) in beliefs.iter() {
                if claims.get(belief.claim).is_some_and(|claim| claim.flushed && !claim.regranted)
                    && belief.is_relied_on()
                {
                    let Basis { client, keys, .. } = &belief.basis;
                    self.log.violation(format!(
                        "c{client} still relies on {keys:?}, which was deleted everywhere long ago \
                         (rules 7 and 8)"
                    ));
                }
            }
        }
        self.check_taken(beliefs, claims);
        let is_excused = |claim| claims.get(claim).is_some_and(|claim| claim.is_excused());
        beliefs.overlaps(is_excused).into_iter().for_each(|what| self.log.violation(what));
    }

    /// The key of this claim is on a node although no call is under way.
    pub(super) fn excuse(
        &self,
        node: usize,
        claim: u64,
        crashed: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        self.lock().claims.excuse(node, claim, self.log.now(), crashed)
    }

    pub(super) fn deleted_by_strangers(&self) -> Vec<String> {
        self.lock().claims.deleted_by_strangers()
    }

    /// Lets go of what keeps clients alive.
    pub(super) fn clear(&self) {
        let inner = std::mem::take(&mut *self.lock());
        drop(inner);
    }
}
