//! What a node in memory does with commands, where it has to do as a server does.

use super::*;
use crate::node::Draw;

#[tokio::test(start_paused = true)]
async fn a_listener_is_told_when_the_node_forgets_its_missing_key() {
    let mut data = Data::new();
    let mut told = 0;
    for number in 0..MAX_WATCHED + 100 {
        let claim = Claim::new(&number.to_string().into(), String::new());
        let watch = Command { claim: Arc::new(claim), action: Action::Watch };
        let (replies, pushes) = data.run(&[watch], 1);
        assert_eq!(replies, [Reply::Missing]);
        told += pushes.len();
    }
    assert_eq!((data.watched.len(), told), (100, MAX_WATCHED));
}

/// Under a second name, a node would have a second vote (rule 16).
#[tokio::test(start_paused = true)]
async fn a_reader_is_given_one_vote_by_a_node() {
    let mut data = Data::new();
    let claim = Claim { shared: true, ..Claim::new(&"r".into(), "v".to_owned()) };
    let action = Action::Grant { ttl: Duration::from_secs(60) };
    let grant = Command { claim: Arc::new(claim), action };
    for (connection, reply) in [(1, Reply::Done), (2, Reply::Foreign)] {
        assert_eq!(data.run(std::slice::from_ref(&grant), connection).0, [reply]);
    }
}

/// Has a client with this value do this, as a reader or a writer at this place of the queue.
fn act(data: &mut Data, place: u64, value: &str, shared: bool, action: Action) -> Reply {
    let claim = Claim::new(&"r".into(), value.to_owned());
    let claim = Arc::new(Claim { shared, place, ..claim });
    let [reply] = &data.run(&[Command { claim, action }], 1).0[..] else { panic!() };
    reply.clone()
}

/// As a server does: otherwise the two would wait for each other.
#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_keeps_no_reader_out_that_is_before_it_in_the_queue() {
    let life = Duration::from_secs(60);
    let mut data = Data::new();
    let mut run = |place, value, shared, action| act(&mut data, place, value, shared, action);
    let grant = Action::Grant { ttl: life };
    assert_eq!(run(0, "reader", true, grant), Reply::Done);
    let raise = Action::RaiseBarrier { life, insists: false };
    for (barrier, before) in [(7, Reply::Done), (0, Reply::Foreign)] {
        assert_eq!(run(barrier, "writer", false, raise), Reply::Done);
        assert_eq!(run(0, "new", true, grant), Reply::Foreign);
        assert_eq!(run(8, "behind", true, grant), Reply::Foreign);
        assert_eq!(run(6, "before", true, grant), before);
        run(6, "before", true, Action::Release { wakes: KeySet::NONE });
    }
}

/// A server has deleted it.
#[tokio::test(start_paused = true)]
async fn a_key_that_has_expired_does_not_come_back_with_a_clock_that_is_set_back() {
    let mut data = Data::new();
    let second = Duration::from_secs(1);
    let grant = Action::Grant { ttl: second };
    assert_eq!(act(&mut data, 0, "v", false, grant), Reply::Done);
    tokio::time::advance(2 * second).await;
    data.set_clock(-10.0);
    assert!(data.keys().is_empty());
    assert_eq!(act(&mut data, 0, "w", false, grant), Reply::Done);
    data.set_clock(-10.0);
    tokio::time::advance(2 * second).await;
    assert_eq!(data.keys(), ["r"], "it lingers");
}

/// Like a server that has lost its data.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_cleared_forgets_its_counters() {
    let mut data = Data::new();
    let claim = Arc::new(Claim::new(&"r".into(), "v".to_owned()));
    let life = Duration::from_secs(60);
    let draw = Draw { floor: 0, count: 5, life };
    let grant = Command { claim, action: Action::GrantFenced { ttl: life, draw } };
    for _ in 0..2 {
        let (replies, _) = data.run(std::slice::from_ref(&grant), 1);
        assert_eq!(replies, [Reply::Numbered { first: 1 }]);
        data.clear();
    }
}

/// A node that looked at each command would take the longer the more there is.
#[tokio::test(start_paused = true)]
async fn a_node_looks_for_what_has_expired_when_as_much_again_is_there() {
    for shared in [false, true] {
        let mut data = Data::new();
        let ttl = Duration::from_secs(60);
        let mut looked = 0;
        for number in 0..5000 {
            let claim = Claim::new(&number.to_string().into(), "v".to_owned());
            let claim = Arc::new(Claim { shared, ..claim });
            let before = data.sweep_at;
            data.run(&[Command { claim, action: Action::Grant { ttl } }], 1);
            looked += u32::from(data.sweep_at != before);
            assert!(data.sweep_at >= data.kept(), "{number}");
        }
        assert_eq!((looked, data.kept()), (3, 5000), "at 1024, 2048 and 4096");
        tokio::time::advance(2 * ttl).await;
        data.sweep(&mut Pushes::by(None));
        assert_eq!((data.kept(), data.sweep_at), (0, 1024));
    }
}

/// As `raise_barrier.lua` does.
#[tokio::test(start_paused = true)]
async fn a_barrier_stands_before_readers_or_where_its_writer_insists_and_no_later_writer_takes_it()
{
    let life = Duration::from_secs(60);
    let mut data = Data::new();
    let mut run = |place, value, shared, action| act(&mut data, place, value, shared, action);
    let share = Action::Grant { ttl: life };
    let insists = Action::RaiseBarrier { life, insists: true };
    let raise = Action::RaiseBarrier { life, insists: false };
    assert_eq!(run(7, "first", false, raise), Reply::Missing);
    for (place, writer, reply) in [
        (7, "first", Reply::Done),
        (7, "first", Reply::Done),
        (8, "later", Reply::Missing),
        (0, "later", Reply::Missing),
    ] {
        assert_eq!(run(place, writer, false, insists), reply);
        assert_eq!(run(6, "before", true, share), Reply::Done);
        assert_eq!(run(8, "behind", true, share), Reply::Foreign);
        run(6, "before", true, Action::Release { wakes: KeySet::NONE });
    }
    assert_eq!(run(0, "later", false, Action::LowerBarrier), Reply::Foreign);
    assert_eq!(run(7, "same", false, insists), Reply::Done);
    assert_eq!(run(5, "later", false, insists), Reply::Done);
    assert_eq!(run(6, "before", true, share), Reply::Foreign);
    assert_eq!(run(0, "later", false, Action::LowerBarrier), Reply::Done);
    assert_eq!(run(8, "behind", true, share), Reply::Done);
}

/// A server keeps the set of the waiters for twice as long as an entry lives, and says as long that clients may wait.
#[tokio::test(start_paused = true)]
async fn a_queue_outlives_its_entries_for_as_long_as_they_lived() {
    let mut data = Data::new();
    let life = Duration::from_secs(5);
    let join = Action::Join { place: 0, life, listens: Listens::Nothing, reads: false };
    assert!(matches!(act(&mut data, 0, "waits", false, join), Reply::Queued { .. }));
    let mut leaves = || act(&mut data, 0, "leaves", false, Action::Leave { again: true });
    for (pause, is_there) in [(life * 3 / 2, true), (life, false)] {
        tokio::time::advance(pause).await;
        assert_eq!(matches!(leaves(), Reply::Unwoken { deleted: false, .. }), is_there);
    }
}

/// Its script sets the expiry of each lock, which may have more left.
#[tokio::test(start_paused = true)]
async fn new_numbers_for_a_set_tell_the_listeners_of_each_lock() {
    let mut data = Data::new();
    let ttl = Duration::from_secs(60);
    let rest = ["s".into()].into();
    let claim = Arc::new(Claim { rest, ..Claim::new(&"r".into(), "v".to_owned()) });
    let mut run = |claim: &Arc<Claim>, connection, action| {
        data.run(&[Command { claim: Arc::clone(claim), action }], connection)
    };
    assert_eq!(run(&claim, 1, Action::Grant { ttl }).0, [Reply::Done]);
    for key in ["r", "s"] {
        run(&Arc::new(Claim::new(&key.into(), String::new())), 2, Action::Watch);
    }
    let draw = Draw { floor: 0, count: 1, life: ttl };
    let (replies, pushes) = run(&claim, 1, Action::Redraw { ttl: ttl / 2, draw });
    assert_eq!(replies, [Reply::Numbered { first: 1 }]);
    assert_eq!(pushes.iter().map(|push| &*push.key).collect::<Vec<_>>(), ["r", "s"]);
}

/// The key of a barrier expires on a server.
#[tokio::test(start_paused = true)]
async fn a_barrier_that_has_expired_is_missing_to_each_writer_that_lowers_it() {
    let mut data = Data::new();
    let life = Duration::from_secs(5);
    let raise = Action::RaiseBarrier { life, insists: true };
    assert_eq!(act(&mut data, 1, "writer", false, raise), Reply::Done);
    assert_eq!(act(&mut data, 2, "other", false, Action::LowerBarrier), Reply::Foreign);
    tokio::time::advance(life).await;
    for writer in ["other", "writer"] {
        assert_eq!(act(&mut data, 1, writer, false, Action::LowerBarrier), Reply::Missing);
    }
}
