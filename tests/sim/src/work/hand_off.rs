//! Locks that go from process to process, and what must hold of them: of the clients that have the
//! data of a lease, one has the lock at most; it has it while the lease is valid, with no other holder in
//! between, and with its token.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_core::{FencingToken, LockGuard, LockHandle};

use super::{
    super::{
        claims::Quiet,
        plan::{Crash, End, HandOff, Mode, Step, Take},
        report::Oddity,
        world::{ms, sleep},
    },
    SLACK, Worker,
    cancel::cancellable,
};

/// A lease on its way.
struct Sent {
    /// As it goes over the wire.
    data: String,
    take: Take,
    how: HandOff,
    /// What the client had that sent it.
    before: LockHandle,
    token: Option<FencingToken>,
    /// How often each key was given until then.
    begun: Vec<u64>,
    /// When its validity ends at the latest, in true milliseconds, if wall clocks are right.
    ends: u64,
    /// When it ends at the earliest; not at all if the lock was lost before.
    lasts: Option<u64>,
    /// The drift that its holders allow for.
    drift: f64,
    /// The longest validity that its settings allow.
    most: Duration,
}

impl Worker {
    /// Sends a lock to other processes.
    pub(super) fn hand_off(&self, id: u64, take: &Take, guard: LockGuard, how: HandOff) {
        let Self { world, client, .. } = self;
        let (before, token) = (guard.handle(), guard.fencing_token());
        let left = u64::try_from(guard.validity().as_millis()).unwrap_or(u64::MAX);
        let drift = take.drift.unwrap_or(1.0) * self.drift();
        let allowance = (left as f64 * drift) as u64 + SLACK;
        let longest = take.steps.iter().map(Step::ttl).fold(take.ttl, u64::max);
        self.let_go(id, take);
        let begun = world.ledger.begun(&take.resources());
        let data = serde_json::to_string(&guard.into_lease()).unwrap();
        // What no client can adopt is deleted instead.
        let is_adoptable = left > 0 && take.mode == Mode::Writer;
        world.ledger.left(&before, is_adoptable.then(|| self.quiet()));
        world.log.odd(Oddity::HandOff);
        self.say(57, left, || {
            format!("hands {:?} off, valid for {left} ms: {how:?}", take.names())
        });
        let sent = Arc::new(Sent {
            data,
            take: Take { ttl: longest, ..take.clone() },
            how,
            before,
            token,
            begun,
            ends: world.now() + left + allowance,
            lasts: (left > allowance && take.mode == Mode::Writer)
                .then(|| world.now() + left - allowance),
            drift,
            most: ms(longest).mul_f64(1.0 - drift),
        });
        if let Some(Crash::Giver(after)) = how.crash {
            let client = Arc::clone(client);
            world.later(after, move |world| world.crash_unless_over(&client));
        }
        let mut alive = world.clients();
        alive.retain(|client| !client.has_crashed());
        for (to, after) in [Some((how.to, how.after)), how.again].into_iter().flatten() {
            let taker = Self { client: Arc::clone(&alive[to % alive.len()]), ..self.clone() };
            world.spawn(&taker.client.clone(), adopts(taker, Arc::clone(&sent), after));
        }
    }

    /// After how long nothing is sent any more that was asked for until now.
    fn quiet(&self) -> Quiet {
        let timeout = self.world.plan_of(&self.client).node_timeout(self.world.plan.settings);
        Quiet::after(&self.client, self.world.now(), timeout + timeout / 10 + SLACK)
    }

    /// A lease was adopted just now.
    fn adopted(&self, sent: &Sent, guard: &LockGuard) -> u64 {
        let Self { world, client, .. } = self;
        let handle = guard.handle();
        world.log.count(|stats| stats.locks += 1);
        world.log.odd(Oddity::Adopted);
        self.say(58, 0, || {
            format!("has adopted {:?}, valid for {:?}", sent.take.names(), handle.validity())
        });
        if sent.take.mode != Mode::Writer {
            self.violation("adopted what others may hold as well");
        }
        if handle.fencing_token() != sent.token {
            self.violation(format!(
                "adopted a lock with the token {:?}, which had {:?}",
                handle.fencing_token(),
                sent.token
            ));
        }
        if handle.validity() > sent.most {
            self.violation(format!(
                "adopted a lock for {:?}, and with its settings it is {:?} at most (rule 2)",
                handle.validity(),
                sent.most
            ));
        }
        if client.closed.load(Relaxed) {
            self.violation("adopted a lock after shutdown had begun (rule 13)");
        }
        // The validity of a lease is told by the wall clocks of both processes.
        let has_wall = world.plan_of(client).wall_error.is_some();
        let is_excused = world.ledger.inherit(&sent.before, client.number, &handle);
        if has_wall && !is_excused && world.now() > sent.ends + 2 * world.ledger.wall_error() {
            self.violation("adopted a lock whose validity had ended (rule 7)");
        }
        if !is_excused && world.ledger.begun(&sent.take.resources()) != sent.begun {
            self.violation("adopted a lock that another client had on its way (rule 7)");
        }
        self.relies(&sent.take, handle, None, false)
    }

    /// Whether nothing stands in the way of an adoption that begins now and has no rival. A client with a
    /// node under two names may not know the nodes that have the lock.
    fn must_adopt(&self, sent: &Sent) -> bool {
        let (world, how) = (&self.world, sent.how);
        // A wall clock that is ahead ends a lease early.
        let spare = 2 * world.ledger.wall_error() + self.round();
        world.plan.calm
            && !world.plan_of(&self.client).has_twin()
            && how.again.is_none()
            && how.cancel.is_none()
            && sent.lasts.is_some_and(|lasts| world.now() + spare < lasts)
    }
}

/// A process has the data of a lease after some time, and adopts it.
fn adopts(taker: Worker, sent: Arc<Sent>, after: u64) -> BoxFuture<'static, ()> {
    async move {
        sleep(after).await;
        let (world, how) = (&taker.world, sent.how);
        if let Some(Crash::Taker(after)) = how.crash {
            let client = Arc::clone(&taker.client);
            world.later(after, move |world| world.crash_unless_over(&client));
        }
        let lease = serde_json::from_str(&sent.data).unwrap();
        let must_adopt = taker.must_adopt(&sent);
        let limit = world.plan.settings.connect_timeout + taker.round();
        let redlock = taker.client.redlock();
        let adopting = cancellable(redlock.adopt(lease), how.cancel);
        match taker.bounded("adopt", limit, adopting).await {
            None => taker.say(31, 2, || "gives up".to_owned()),
            Some(Err(error)) => {
                if must_adopt && taker.is_calm(&sent.take) && !taker.client.closed.load(Relaxed) {
                    taker.refused(&error);
                    taker.violation(format!("could not adopt although nothing is wrong: {error}"));
                } else {
                    taker.told(&error);
                }
            }
            Some(Ok(guard)) => {
                let id = taker.adopted(&sent, &guard);
                let end = match how.hops.checked_sub(1) {
                    Some(hops) => End::HandOff(HandOff { hops, ..how }),
                    None if how.hold.is_multiple_of(2) => End::Release,
                    None => End::Drop,
                };
                let steps = vec![Step::Sleep(how.hold)];
                let drift = Some(sent.drift / taker.drift());
                let take = Take { steps, end, drift, ..sent.take.clone() };
                taker.holding(&take, guard, id).await;
            }
        }
    }
    .boxed()
}
