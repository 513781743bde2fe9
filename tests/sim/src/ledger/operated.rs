//! What operators see and take away, and the ticks of jobs.

use std::time::Duration;

use redlock_core::{LockHandle, seam::simulation::claim};

use super::{
    super::{
        beliefs::Beliefs,
        claims::{Claims, key_number},
        looks::Look,
        network::Act,
        plan::Mode,
    },
    Ledger,
};

impl Ledger {
    /// A node answers an operator.
    pub(super) fn saw(&self, act: &Act<'_>, writer: Option<u64>, left: Option<Duration>) {
        let mut inner = self.lock();
        let mut client = |number| inner.claims.get(number).map_or(usize::MAX, |claim| claim.client);
        let writer = writer.map(|number| (number, client(number)));
        let key = key_number(act.key);
        let look = Look { node: act.node, writer, left };
        inner.looks.push((act.client, key, self.log.now(), look));
    }

    /// What nodes had when they answered this client about a key, from `since` on.
    pub(crate) fn looks(&self, client: usize, key: usize, since: u64) -> Vec<Look> {
        let inner = self.lock();
        let of = inner.looks.iter().filter(|it| (it.0, it.1) == (client, key) && it.2 >= since);
        of.map(|(.., look)| *look).collect()
    }

    /// The hold of the client that relies on a key alone, and that client. None when the keys of the hold
    /// may have gone from a node.
    pub(crate) fn sure_holder(&self, key: usize) -> Option<(u64, usize)> {
        let inner = &mut *self.lock();
        let mut holds = inner.beliefs.iter();
        let (id, belief) = holds.find(|(_, it)| {
            it.basis.mode == Mode::Writer && it.basis.keys.contains(&key) && it.is_relied_on()
        })?;
        let is_untouched = inner.claims.get(belief.claim).is_some_and(|it| it.is_untouched());
        is_untouched.then_some((id, belief.basis.client))
    }

    /// An operator is about to take a key away, or to delete it now.
    pub(crate) fn operates(&self, key: usize, now: bool) {
        *self.lock().operated.entry(key).or_default() |= now;
    }

    /// A command takes a key away from these claims.
    pub(super) fn takes(&self, act: &Act<'_>, from: &[u64]) {
        let mut inner = self.lock();
        let may_overlap = inner.operated.get(&key_number(act.key)).copied().unwrap_or_default();
        inner.claims.taken(act, from, may_overlap, self.log.now());
    }

    /// Whether an operator may have taken one of these keys away, or deleted it.
    pub(crate) fn was_operated(&self, keys: impl IntoIterator<Item = usize>) -> bool {
        let inner = self.lock();
        keys.into_iter().any(|key| inner.operated.contains_key(&key))
    }

    /// No client relies on a lock for long that an operator has taken away on a quorum of nodes.
    pub(super) fn check_taken(&self, beliefs: &Beliefs, claims: &mut Claims) {
        let now = self.log.now();
        for (_, belief) in beliefs.iter() {
            let Some(claim) = claims.get(belief.claim) else { continue };
            if claim.is_long_gone(now) && belief.is_relied_on() {
                claim.is_told();
                self.log.violation(format!(
                    "c{} still relies on {:?}, which an operator took away long ago (rule 7)",
                    belief.basis.client, belief.basis.keys
                ));
            }
        }
    }

    /// The job of a tick begins, whose key stays for `min_hold` once a node has granted it. Returns what is
    /// wrong with that.
    pub(crate) fn job_begins(
        &self,
        key: usize,
        handle: &LockHandle,
        min_hold: u64,
    ) -> Option<String> {
        let number = claim(handle);
        let inner = &mut *self.lock();
        let done = inner.jobs.entry(key).or_default();
        let others = done.clone();
        done.push(number);
        let overlaps =
            |other: &u64| *other == number || inner.claims.overlap_of(*other, number, min_hold);
        let other = others.iter().find(|other| overlaps(other))?;
        Some(format!("k{key} is done again, #{:04x} after #{:04x}", number >> 48, other >> 48))
    }

    /// How often the job of a tick has begun.
    pub(crate) fn jobs_begun(&self, key: usize) -> usize {
        self.lock().jobs.get(&key).map_or(0, Vec::len)
    }
}
