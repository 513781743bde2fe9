//! Which keys a node refuses for now, for example because it has no memory left. Clients have another node keep the queues
//! of these keys: in the queue of a node that takes no waiter, a release finds none.
//!
//! A client that takes the lock sets its key on all nodes, and sees the refusals by itself. One that only waits sees
//! those of its reports.

use std::time::Duration;

use super::{Action, Job, Reply, queue_keys};
use crate::{
    clock::Moment,
    error::{Cause, NodeError},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// A node at its limit takes one key and refuses the next. It is not relied on before it has refused nothing for
/// this long: clients would never agree.
const STEADY: Duration = Duration::from_secs(1);

/// A client that only waits sets no key, and sees no other way that the node takes keys again. It asks once more
/// after this long, which costs it some commands on two nodes.
const AGAIN: Duration = Duration::from_secs(30);

/// The keys are noted in so many parts, by their hashes. One member of a cluster may refuse its keys while the others
/// take theirs, and clients that want only those would know nothing of it.
const PARTS: usize = 64;

/// No key of a part was refused. Zero cannot say this: on a clock that began less than [`AGAIN`] ago, it would read as
/// a recent refusal.
const NEVER: u64 = u64::MAX;

pub(super) struct Refusals {
    /// Something was refused on this connection: the usual case costs no more than a look at this.
    any: AtomicBool,
    /// When a key of each part was refused last, or [`NEVER`].
    last: [AtomicU64; PARTS],
}

impl Default for Refusals {
    fn default() -> Self {
        let last = std::array::from_fn(|_| AtomicU64::new(NEVER));
        Self { any: AtomicBool::new(false), last }
    }
}

impl Refusals {
    /// Notes what the node has answered.
    pub(super) fn note(
        &self,
        job: &Job,
        result: &Result<Reply, NodeError>,
        now: impl Fn() -> Moment,
    ) {
        match result {
            Err(error) if error.cause == Cause::Passing => {
                let now = now().as_nanos();
                self.parts(job).for_each(|last| last.store(now, Ordering::Release));
                self.any.store(true, Ordering::Release);
            }
            Ok(reply) if self.any.load(Ordering::Acquire) && has_written(job, reply) => {
                let now = now();
                let is_over = |last: &&AtomicU64| !was_refused_within(STEADY, last, now);
                let over = self.parts(job).filter(is_over);
                over.for_each(|last| last.store(NEVER, Ordering::Release));
            }
            _ => {}
        }
    }

    /// Whether the node refuses keys whose queue has a name with this hash.
    pub(super) fn has(&self, queue: u64, now: impl Fn() -> Moment) -> bool {
        self.any.load(Ordering::Acquire)
            && self.part(queue).is_some_and(|last| was_refused_within(AGAIN, last, now()))
    }

    /// Forgets all of it: there is a new connection, perhaps to another process.
    pub(super) fn forget(&self) {
        self.any.store(false, Ordering::Release);
        self.last.iter().for_each(|it| it.store(NEVER, Ordering::Release));
    }

    fn parts(&self, job: &Job) -> impl Iterator<Item = &AtomicU64> {
        job.claim.keys().filter_map(|key| self.part(queue_keys::queue_hash(key)))
    }

    fn part(&self, queue: u64) -> Option<&AtomicU64> {
        self.last.get(usize::try_from(queue % PARTS as u64).ok()?)
    }
}

/// Whether the node has refused a key of this part within this span.
fn was_refused_within(span: Duration, last: &AtomicU64, now: Moment) -> bool {
    let last = last.load(Ordering::Acquire);
    last != NEVER && Duration::from_nanos(now.as_nanos().saturating_sub(last)) < span
}

/// Whether the answer shows that the node takes new data. It deletes and extends keys without any memory left.
fn has_written(job: &Job, reply: &Reply) -> bool {
    match (job.action, reply) {
        (Action::Grant { .. } | Action::Heal { .. }, Reply::Done)
        | (_, Reply::Numbered { .. } | Reply::Queued { .. }) => true,
        // A server refuses a `SET` before it looks whether the key is there. A script looks first.
        (Action::Grant { .. } | Action::Heal { .. }, Reply::Foreign) => {
            !job.claim.is_set() && !job.claim.shared
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        error::NodeErrorKind,
        node::{Claim, KeySet, Listens},
        token::Token,
    };

    const SECOND: Duration = Duration::from_secs(1);
    const GRANT: Action = Action::Grant { ttl: SECOND };

    fn job(key: &str, action: Action) -> Arc<Job> {
        Job::new(&Arc::new(Claim::new(&key.into(), "value".to_owned())), action)
    }

    fn refusal(cause: Cause) -> Result<Reply, NodeError> {
        let error = NodeError::new(&"a".into(), NodeErrorKind::Server, "OOM");
        Err(NodeError { cause, ..error })
    }

    fn queue(key: &str) -> u64 {
        queue_keys::queue_hash(key)
    }

    fn at(seconds: f64) -> impl Fn() -> Moment {
        move || Moment::ORIGIN + 1000 * SECOND + SECOND.mul_f64(seconds)
    }

    #[test]
    fn only_a_refusal_that_passes_counts_and_only_for_keys_like_this() {
        let refusals = Refusals::default();
        for cause in [Cause::Other, Cause::Replica, Cause::Login] {
            refusals.note(&job("a", GRANT), &refusal(cause), at(0.0));
        }
        assert!(!refusals.has(queue("a"), at(0.0)));
        refusals.note(&job("a", GRANT), &refusal(Cause::Passing), at(0.0));
        assert!(refusals.has(queue("a"), at(29.0)));
        assert!(!refusals.has(queue("b"), at(0.0)), "it may be another member's");
        assert!(!refusals.has(queue("a"), at(30.0)), "the client is to ask again");
        refusals.forget();
        assert!(!refusals.has(queue("a"), at(0.0)));
    }

    /// Its clock began a moment ago.
    #[test]
    fn a_client_that_was_started_just_now_takes_no_key_for_refused_that_was_not() {
        let now = || Moment::ORIGIN + SECOND;
        let refusals = Refusals::default();
        refusals.note(&job("a", GRANT), &refusal(Cause::Passing), now);
        assert!(refusals.has(queue("a"), now) && !refusals.has(queue("b"), now));
        let later = || Moment::ORIGIN + 3 * SECOND;
        refusals.note(&job("a", GRANT), &Ok(Reply::Done), later);
        assert!(!refusals.has(queue("a"), later));
        refusals.note(&job("a", GRANT), &refusal(Cause::Passing), later);
        refusals.forget();
        refusals.note(&job("b", GRANT), &refusal(Cause::Passing), later);
        assert!(!refusals.has(queue("a"), later));
    }

    /// All permits of a lock have one queue.
    #[test]
    fn a_permit_that_is_refused_counts_for_the_queue_of_all() {
        let refusals = Refusals::default();
        let permits = queue_keys::permit("a", 17);
        refusals.note(&job(&permits, GRANT), &refusal(Cause::Passing), at(0.0));
        assert!(refusals.has(queue(queue_keys::queue_name(&queue_keys::permit("a", 3))), at(0.0)));
    }

    #[test]
    fn a_node_is_relied_on_again_once_it_has_written_and_refused_nothing_for_a_while() {
        let heal = Action::Heal { ttl: SECOND };
        let extend = Action::Extend { ttl: SECOND };
        let join = Action::Join { place: 0, life: SECOND, listens: Listens::Nothing, reads: false };
        let release = Action::Release { wakes: KeySet::FIRST };
        let adopt = Action::Adopt { ttl: SECOND, from: Token::parse(&"0a".repeat(20)).unwrap() };
        let there = Reply::There { left: SECOND };
        let queued =
            Reply::Queued { place: 1, ahead: 0, left: None, turn_is_out: false, may_share: false };
        for (action, reply, seconds, is_over) in [
            (GRANT, Reply::Done, 1.0, true),
            (heal, Reply::Done, 1.0, true),
            (GRANT, Reply::Foreign, 1.0, true),
            (join, queued, 1.0, true),
            (GRANT, Reply::Done, 0.9, false),
            (extend, there, 2.0, false),
            (release, Reply::Done, 2.0, false),
            (adopt, Reply::Done, 2.0, false),
            (release, Reply::Foreign, 2.0, false),
            (Action::Watch, Reply::Missing, 2.0, false),
        ] {
            let refusals = Refusals::default();
            refusals.note(&job("a", GRANT), &refusal(Cause::Passing), at(0.0));
            refusals.note(&job("a", action), &Ok(reply.clone()), at(seconds));
            assert_eq!(!refusals.has(queue("a"), at(seconds)), is_over, "{action:?} {reply:?}");
        }
    }

    /// The script of a reader looks at the key before it writes.
    #[test]
    fn a_reader_that_is_refused_the_lock_says_nothing_of_the_memory() {
        let refusals = Refusals::default();
        let claim = Claim { shared: true, ..Claim::new(&"a".into(), "value".to_owned()) };
        let reads = Job::new(&Arc::new(claim), GRANT);
        refusals.note(&reads, &refusal(Cause::Passing), at(0.0));
        refusals.note(&reads, &Ok(Reply::Foreign), at(2.0));
        assert!(refusals.has(queue("a"), at(2.0)));
        refusals.note(&reads, &Ok(Reply::Done), at(2.0));
        assert!(!refusals.has(queue("a"), at(2.0)));
    }
}
