//! Which commands leave an outbox, in which order, and which do not leave at all.

mod leaving;
mod owed;
mod withdrawn;

use std::{sync::Arc, time::Duration};

use super::{
    Action, Claim, CleanUp, Draw, EarlyReply, Identity, Job, KeySet, Listens, Raise, Reply,
    ReplySink, ReplyTo, Restarts, deliver,
    lanes::MAX_IN_BATCH,
    outbox::{Link, Outbox},
    quarantine::Quarantine,
    queued::Queued,
    window::MAX_IN_FLIGHT,
};
use crate::{
    clock::{Clock, Moment, TokioClock},
    error::{NodeError, NodeErrorKind},
    quorum::{FreeSignal, Round, names},
};

const TTL: Duration = Duration::from_secs(1);
const GRANT: Action = Action::Grant { ttl: TTL };
const EXTEND: Action = Action::Extend { ttl: TTL };
const HEAL: Action = Action::Heal { ttl: TTL };

fn at(ms: u64) -> Moment {
    Moment::ORIGIN + Duration::from_millis(ms)
}

fn name() -> Arc<str> {
    "a:1".into()
}

fn up() -> Outbox {
    let mut outbox = Outbox::new(Quarantine::new(Restarts::Trusted, Duration::ZERO));
    outbox.link = Link::Up;
    outbox
}

fn claim(key: impl ToString) -> Arc<Claim> {
    Arc::new(Claim::new(&key.to_string().into(), "v".into()))
}

fn reply_to() -> ReplyTo {
    ReplyTo::new(&Round::new(&names(1), |_| false), 0)
}

fn put(outbox: &mut Outbox, job: Arc<Job>) -> Vec<EarlyReply> {
    outbox.put(&name(), job, reply_to(), at(0))
}

fn clean_up(since: u64, until: u64) -> CleanUp {
    CleanUp {
        since: at(since),
        until: at(until),
        keep_until: Moment::ORIGIN,
        may_be_there: true,
        repeated: false,
    }
}

fn delete(claim: &Arc<Claim>) -> Arc<Job> {
    delete_of(claim, clean_up(0, 5000))
}

fn delete_of(claim: &Arc<Claim>, clean_up: CleanUp) -> Arc<Job> {
    Job::cleaning(claim, Action::Release { wakes: KeySet::NONE }, clean_up)
}

fn take(outbox: &mut Outbox, ms: u64) -> Vec<Queued> {
    outbox.take(&&at(ms), Vec::new()).0
}

fn actions(items: &[Queued]) -> Vec<Action> {
    items.iter().map(|item| item.job.action).collect()
}

fn free_signal() -> Arc<FreeSignal> {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock);
    FreeSignal::new(&"k".into(), 1, &clock)
}

#[test]
fn renewals_and_deletes_leave_first_grants_next_watches_last() {
    let mut outbox = up();
    let free_signal = free_signal();
    assert!(
        outbox.put(&name(), free_signal.job(), ReplyTo::new(&free_signal, 0), at(0)).is_empty()
    );
    let release = Action::Release { wakes: KeySet::NONE };
    assert!(put(&mut outbox, Job::new(&claim("a"), GRANT)).is_empty());
    assert!(put(&mut outbox, delete(&claim("b"))).is_empty());
    assert!(put(&mut outbox, Job::new(&claim("c"), EXTEND)).is_empty());
    let sent = take(&mut outbox, 0);
    assert_eq!(actions(&sent), [EXTEND, release, GRANT, Action::Watch]);
}

/// Other nodes have granted the lock, and a client that waits for it may have no other notice.
#[test]
fn a_release_gives_the_turn_on_a_node_that_its_set_never_reached() {
    let mut outbox = up();
    let claim = claim("k");
    assert!(put(&mut outbox, Job::new(&claim, GRANT)).is_empty());
    let release = Action::Release { wakes: KeySet::FIRST };
    let early = put(&mut outbox, Job::cleaning(&claim, release, clean_up(0, 5000)));
    assert!(matches!(&early[..], [(_, Err(_))]), "its SET is withdrawn: {early:?}");
    assert_eq!(actions(&take(&mut outbox, 0)), [release]);
    deliver(early);
}

#[test]
fn a_delete_withdraws_its_own_set_and_only_that() {
    let mut outbox = up();
    let (ours, other) = (claim("k"), claim("k"));
    assert!(put(&mut outbox, Job::new(&ours, GRANT)).is_empty());
    assert!(put(&mut outbox, Job::new(&other, GRANT)).is_empty());
    let early = put(&mut outbox, delete(&ours));
    let [(_, set), (_, gone)] = &early[..] else { panic!("{early:?}") };
    assert!(!set.as_ref().unwrap_err().may_have_run, "nothing of it is on the node");
    assert_eq!(*gone, Ok(Reply::Missing));
    let sent = take(&mut outbox, 0);
    assert!(matches!(&sent[..], [one] if Arc::ptr_eq(&one.job.claim, &other)));
    deliver(early);
}

#[test]
fn a_delete_follows_a_set_that_was_sent() {
    let mut outbox = up();
    let ours = claim("k");
    put(&mut outbox, Job::new(&ours, GRANT));
    assert_eq!(actions(&take(&mut outbox, 0)), [GRANT]);
    assert!(put(&mut outbox, delete(&ours)).is_empty());
    assert_eq!(take(&mut outbox, 0).len(), 1);
}

/// Each of them looks for its own among all that wait for a slow node. Without an index, that takes a minute.
#[test]
fn a_crowd_of_locks_is_renewed_and_released_in_a_moment() {
    let begun = std::time::Instant::now();
    for (first, then) in [(GRANT, None), (EXTEND, Some(EXTEND))] {
        let mut outbox = up();
        let claims: Vec<_> = (0..100_000).map(claim).collect();
        for ours in &claims {
            put(&mut outbox, Job::new(ours, first));
        }
        for (ours, action) in claims.iter().filter_map(|ours| Some((ours, then?))) {
            assert_eq!(put(&mut outbox, Job::new(ours, action)).len(), 1);
        }
        for ours in &claims {
            assert!(!put(&mut outbox, delete(ours)).is_empty());
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_newer_wish_replaces_a_renewal_that_was_not_sent() {
    let mut outbox = up();
    let ours = claim("k");
    let longer = Action::Extend { ttl: 2 * TTL };
    put(&mut outbox, Job::new(&ours, EXTEND));
    assert_eq!(put(&mut outbox, Job::new(&ours, longer)).len(), 1, "the older one is told");
    assert_eq!(put(&mut outbox, Job::new(&ours, HEAL)).len(), 1, "the renewal finds out");
    assert_eq!(actions(&take(&mut outbox, 0)), [longer]);

    put(&mut outbox, Job::new(&ours, HEAL));
    assert_eq!(put(&mut outbox, delete(&ours)).len(), 1);
    assert_eq!(actions(&take(&mut outbox, 0)), [Action::Release { wakes: KeySet::NONE }]);
}

#[test]
fn extensions_that_callers_wait_for_are_all_sent_until_the_lock_is_released() {
    struct Asked;

    impl ReplySink for Asked {
        fn receive(self: Arc<Self>, _: usize, _: Result<Reply, NodeError>) {}

        fn is_awaited(&self) -> bool {
            true
        }
    }

    let (mut outbox, ours, asked) = (up(), claim("k"), Arc::new(Asked));
    for released in [false, true] {
        for _ in 0..2 {
            let job = Job::new(&ours, EXTEND);
            assert!(outbox.put(&name(), job, ReplyTo::new(&asked, 0), at(0)).is_empty());
        }
        if released {
            assert_eq!(put(&mut outbox, delete(&ours)).len(), 2, "both are told");
        }
        assert_eq!(take(&mut outbox, 0).len(), if released { 1 } else { 2 });
    }
}

/// A renewal would find the key missing and set it, and a release would then delete nothing.
#[test]
fn a_renewal_does_not_overtake_the_set_of_its_own_lock() {
    let mut outbox = up();
    let ours = claim("k");
    put(&mut outbox, Job::new(&ours, GRANT));
    for action in [EXTEND, HEAL] {
        let early = put(&mut outbox, Job::new(&ours, action));
        assert!(!early[0].1.as_ref().unwrap_err().may_have_run);
    }
    assert_eq!(actions(&take(&mut outbox, 0)), [GRANT]);
}

#[test]
fn a_crowd_leaves_in_order_and_no_more_of_it_than_a_node_can_answer() {
    let mut outbox = up();
    let crowd = MAX_IN_FLIGHT + 100;
    for number in 0..crowd {
        assert!(put(&mut outbox, Job::new(&claim(number), GRANT)).is_empty());
    }
    let mut sent = Vec::new();
    while !outbox.is_idle() {
        let mut in_flight = Vec::new();
        while outbox.next(&&at(0)).is_some() {
            let items = take(&mut outbox, 0);
            assert!((1..=MAX_IN_BATCH).contains(&items.len()), "{}", items.len());
            sent.extend(items.iter().map(|item| item.job.claim.key.parse::<usize>().unwrap()));
            in_flight.extend(items);
        }
        assert!(in_flight.len() <= MAX_IN_FLIGHT && take(&mut outbox, 0).is_empty());
        outbox.lanes.answered(&in_flight);
    }
    assert!(sent.is_sorted());
    assert_eq!(sent.len(), crowd);
}

#[test]
fn renewals_find_room_beside_many_grants_and_grants_beside_many_watches() {
    let mut outbox = up();
    let free_signal = free_signal();
    for _ in 0..2 * MAX_IN_FLIGHT {
        let reply_to = ReplyTo::new(&free_signal, 0);
        outbox.put(&name(), free_signal.job(), reply_to, at(0));
    }
    let drain = |outbox: &mut Outbox| {
        let mut sent = Vec::new();
        while outbox.next(&&at(0)).is_some() {
            sent.extend(take(outbox, 0));
        }
        actions(&sent)
    };
    assert_eq!(drain(&mut outbox).len(), MAX_IN_FLIGHT / 2);
    for number in 0..MAX_IN_FLIGHT {
        put(&mut outbox, Job::new(&claim(number), GRANT));
    }
    let sent = drain(&mut outbox);
    assert_eq!((sent.len(), sent[0]), (MAX_IN_FLIGHT / 2, GRANT));
    // A few watches leave with each batch, so that a crowd does not keep them all; not so many that grants wait.
    let mut watches = 0;
    for number in 0..MAX_IN_FLIGHT / 4 {
        put(&mut outbox, Job::new(&claim(number), EXTEND));
        let sent = drain(&mut outbox);
        assert!(sent[0] == EXTEND && sent.len() <= 9, "{sent:?}");
        watches += sent.len() - 1;
    }
    assert!((8..=MAX_IN_FLIGHT / 8).contains(&watches), "{watches}");
}

#[test]
fn a_watch_without_a_listener_is_not_sent() {
    let mut outbox = up();
    let free_signal = free_signal();
    outbox.put(&name(), free_signal.job(), ReplyTo::new(&free_signal, 0), at(0));
    free_signal.stop();
    assert!(take(&mut outbox, 0).is_empty());
}

#[test]
fn a_watch_that_failed_is_asked_again_until_the_connection_ends() {
    let mut outbox = up();
    let free_signal = free_signal();
    outbox.put(&name(), free_signal.job(), ReplyTo::new(&free_signal, 0), at(0));
    let item = take(&mut outbox, 0).remove(0);
    outbox.lanes.answered(std::slice::from_ref(&item));
    outbox.ask_again(item, at(1000));
    assert!(outbox.has_no_cleanups() && take(&mut outbox, 999).is_empty());
    assert_eq!(outbox.next(&&at(999)), Some(at(1000)));
    let item = take(&mut outbox, 1000).remove(0);
    outbox.lanes.answered(std::slice::from_ref(&item));
    outbox.ask_again(item, at(2000));
    // The next connection asks for every listener.
    assert!(outbox.disconnect(at(1500)).is_empty());
    assert!(take(&mut outbox, 9000).is_empty());
}

#[test]
fn votes_that_wait_for_a_node_that_sits_out_are_taken_back() {
    let (now, name) = (at(0), name());
    let span = Duration::from_secs(60);
    let mut outbox = Outbox::new(Quarantine::new(Restarts::Strict, span));
    let ours = claim("k");
    for job in [Job::new(&ours, GRANT), Job::new(&claim("l"), EXTEND), delete(&claim("m"))] {
        assert!(put(&mut outbox, job).is_empty());
    }
    outbox.quarantine.admit(&Identity::default(), true, now).unwrap();
    outbox.link = Link::Up;
    assert_eq!(outbox.why_no_vote(&name, now).unwrap().kind, NodeErrorKind::SitsOut);
    let barred = outbox.take_barred(&name, now);
    let [(item, error)] = &barred[..] else { panic!("{} are barred", barred.len()) };
    assert_eq!((item.job.action, error.kind), (GRANT, NodeErrorKind::SitsOut));
    assert_eq!(take(&mut outbox, 0).len(), 2);
    let early = put(&mut outbox, Job::new(&ours, GRANT));
    assert_eq!(early[0].1.as_ref().unwrap_err().kind, NodeErrorKind::SitsOut);
    let later = outbox.put(&name, Job::new(&ours, GRANT), reply_to(), now + span);
    assert!(later.is_empty() && outbox.why_no_vote(&name, now + span).is_none());
}

/// A node that has lost its counters draws no numbers, not even for a lock that was set again there.
/// It renews locks, and a node that has given a number may confirm it.
#[test]
fn a_node_that_sits_out_draws_no_numbers() {
    let span = Duration::from_secs(60);
    let draw = Draw { floor: 1, count: 2, life: span };
    let redraw = Action::Redraw { ttl: TTL, draw };
    let confirm = Action::Confirm(Raise { from: 1, to: 2, life: span });
    let mut outbox = Outbox::new(Quarantine::new(Restarts::Strict, span));
    for action in [redraw, EXTEND, confirm] {
        assert!(put(&mut outbox, Job::new(&claim("waits"), action)).is_empty());
    }
    outbox.quarantine.admit(&Identity::default(), true, at(0)).unwrap();
    outbox.link = Link::Up;
    let barred = outbox.take_barred(&name(), at(0));
    let barred: Vec<_> = barred.iter().map(|(item, error)| (item.job.action, error.kind)).collect();
    assert_eq!(barred, [(redraw, NodeErrorKind::SitsOut)]);
    assert_eq!(actions(&take(&mut outbox, 0)), [EXTEND, confirm]);

    let grant = Action::GrantFenced { ttl: TTL, draw };
    for action in [redraw, grant] {
        let early = put(&mut outbox, Job::new(&claim("new"), action));
        assert_eq!(early[0].1.as_ref().unwrap_err().kind, NodeErrorKind::SitsOut, "{action:?}");
    }
    for action in [EXTEND, HEAL, confirm] {
        assert!(put(&mut outbox, Job::new(&claim(format!("{action:?}")), action)).is_empty());
    }
    let later = outbox.put(&name(), Job::new(&claim("new"), redraw), reply_to(), at(0) + span);
    assert!(later.is_empty());
}

#[test]
fn all_that_has_waited_for_too_long_is_taken_out_at_once() {
    let mut outbox = up();
    for queued in 0..100 {
        let job = Job::new(&claim(queued), GRANT);
        assert!(outbox.put(&name(), job, reply_to(), at(queued)).is_empty());
    }
    assert_eq!(outbox.lanes.take_overdue(at(90), Duration::from_millis(50)).len(), 41);
    assert_eq!(outbox.lanes.oldest(), Some(at(41)));
    assert_eq!(outbox.disconnect(at(90)).len(), 59);
}
