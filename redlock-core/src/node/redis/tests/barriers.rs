//! The barriers of writers that wait for readers.

use super::{
    shared::{SHARE, reader},
    *,
};

const RAISE: Action = Action::RaiseBarrier { life: TTL, insists: false };

/// This claim at this place of the queue.
fn at(place: u64, claim: Arc<Claim>) -> Arc<Claim> {
    let Claim { key, value, shared, .. } = &*claim;
    Arc::new(Claim { shared: *shared, place, ..Claim::new(key, value.clone()) })
}

#[tokio::test]
async fn a_writer_that_waits_keeps_new_readers_out_and_not_those_that_are_there() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (one, other) = (reader(CANARY), reader("other"));
    let (writer, second) = (claim("redlock:a", "writer"), claim("redlock:a", "second"));
    assert_eq!(act(&mut *node, &writer, RAISE).await, Ok(Reply::Missing), "there are no readers");
    assert_eq!(server.number("DBSIZE"), 0);
    assert_eq!(act(&mut *node, &one, SHARE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &writer, RAISE).await, Ok(Reply::Done));
    let left = server.number("PTTL redlock:a:{redlock:a}:barrier");
    assert!((50_000..=60_000).contains(&left), "{left}");
    assert_eq!(act(&mut *node, &other, SHARE).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &one, Action::Extend { ttl: TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &one, Action::Heal { ttl: TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &second, Action::LowerBarrier).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &other, SHARE).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &writer, Action::LowerBarrier).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &writer, Action::LowerBarrier).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &other, SHARE).await, Ok(Reply::Done));
}

/// Otherwise the two would wait for each other: the reader for the writer, and the writer for its turn.
#[tokio::test]
async fn a_writer_that_waits_keeps_no_reader_out_that_is_before_it_in_the_queue() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &reader(CANARY), SHARE).await, Ok(Reply::Done));
    for (place, results) in [
        (7, [Ok(Reply::Foreign), Ok(Reply::Done), Ok(Reply::Foreign)]),
        (0, [(); 3].map(|()| Ok(Reply::Foreign))),
    ] {
        let writer = at(place, claim("redlock:a", "writer"));
        assert_eq!(act(&mut *node, &writer, RAISE).await, Ok(Reply::Done));
        for (place, result) in [0, 6, 8].into_iter().zip(results) {
            let reader = at(place, reader("other"));
            assert_eq!(act(&mut *node, &reader, SHARE).await, result, "{place}");
            act(&mut *node, &reader, RELEASE).await.unwrap();
        }
    }
}

/// A writer that was refused in its turn insists: readers that come between two writers would have each of its turns.
#[tokio::test]
async fn a_barrier_stands_before_readers_or_where_its_writer_insists_and_no_later_writer_takes_it()
{
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [first, later] = ["first", "later"].map(|it| claim("redlock:a", it));
    let insists = Action::RaiseBarrier { life: TTL, insists: true };
    assert_eq!(act(&mut *node, &at(7, first.clone()), RAISE).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &at(7, first.clone()), insists).await, Ok(Reply::Done));
    for (place, writer, reply) in
        [(7, &first, Reply::Done), (8, &later, Reply::Missing), (0, &later, Reply::Missing)]
    {
        assert_eq!(act(&mut *node, &at(place, writer.clone()), insists).await, Ok(reply));
        assert_eq!(act(&mut *node, &at(6, reader("before")), SHARE).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &at(8, reader("behind")), SHARE).await, Ok(Reply::Foreign));
        act(&mut *node, &reader("before"), RELEASE).await.unwrap();
    }
    assert_eq!(act(&mut *node, &later, Action::LowerBarrier).await, Ok(Reply::Foreign));
    let same = claim("redlock:a", "same");
    for (place, writer) in [(7, same), (5, later.clone())] {
        assert_eq!(act(&mut *node, &at(place, writer), insists).await, Ok(Reply::Done));
    }
    assert_eq!(act(&mut *node, &at(6, reader("before")), SHARE).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &later, Action::LowerBarrier).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &at(8, reader("behind")), SHARE).await, Ok(Reply::Done));
}
