//! What an outbox owes to its node, and sends again.

use super::*;
use crate::{error::NodeError, node::outbox::PAUSE};

#[test]
fn no_number_of_deletes_is_too_large_to_be_owed() {
    let mut outbox = up();
    let most = 200_000;
    for number in 0..most {
        assert!(put(&mut outbox, delete(&claim(number))).is_empty());
    }
    let unsent = outbox.disconnect(at(0));
    for item in unsent {
        outbox.owe(item.job, at(0));
    }
    assert_eq!(outbox.cleanups(), most);
    let mut paid = 0;
    while !outbox.is_idle() {
        let items = take(&mut outbox, 0);
        paid += items.len();
        outbox.lanes.answered(&items);
    }
    assert_eq!(paid, most);
}

/// No task hears the answers to what is sent as a runtime ends.
#[test]
fn deletes_that_are_taken_out_to_be_sent_last_are_owed_all_the_same() {
    let mut outbox = up();
    put(&mut outbox, Job::new(&claim("lock"), GRANT));
    for key in ["a", "b"] {
        put(&mut outbox, delete(&claim(key)));
    }
    assert_eq!(outbox.take_deletes(at(0)).len(), 2);
    assert_eq!(outbox.cleanups(), 2);
}

#[test]
fn owed_deletes_come_due_in_order() {
    let mut outbox = up();
    outbox.owe(delete(&claim("late")), at(2000));
    outbox.owe(delete(&claim("early")), at(1000));
    assert_eq!((outbox.cleanups(), outbox.next(&&at(0))), (2, Some(at(1000))));
    assert!(!outbox.has_no_cleanups() && !outbox.is_idle());
    assert!(take(&mut outbox, 999).is_empty());
    let early = take(&mut outbox, 1000);
    assert_eq!(&*early[0].job.claim.key, "early");
    let late = take(&mut outbox, 9000);
    assert_eq!((late.len(), outbox.cleanups()), (1, 2), "it may have been set late, too");
    outbox.lanes.answered(&early);
    outbox.lanes.answered(&late);
    assert!(outbox.has_no_cleanups());
    outbox.owe(Job::new(&claim("k"), GRANT), at(1));
    assert!(outbox.has_no_cleanups(), "only deletes are owed");
}

/// Otherwise a queue that could not be reached would give its turns to waiters that have gone.
#[test]
fn a_waiter_that_leaves_is_taken_out_when_the_node_is_back() {
    let waiter = claim("k");
    let leave = || Job::leaving(&waiter, at(5000), false);
    let join = Action::Join {
        place: 0,
        life: Duration::from_secs(5),
        listens: Listens::Nothing,
        reads: false,
    };
    let mut outbox = up();
    for joins in [Job::new(&waiter, join), leave()] {
        outbox.put(&name(), joins, reply_to(), at(0));
    }
    let sent = take(&mut outbox, 0);
    assert_eq!(actions(&sent), [Action::Leave { again: true }], "it never joined");
    let waiter = claim("k");
    let leave = || Job::leaving(&waiter, at(5000), false);
    outbox.put(&name(), Job::new(&waiter, join), reply_to(), at(0));
    assert_eq!(actions(&take(&mut outbox, 0)), [join]);
    outbox.put(&name(), leave(), reply_to(), at(0));
    let sent = take(&mut outbox, 0);
    assert_eq!(actions(&sent), [Action::Leave { again: false }]);
    outbox.abandon(&sent, at(100));
    outbox.disconnect(at(100));
    outbox.link = Link::Down(NodeError::new(&name(), NodeErrorKind::Down, "it is down"));
    assert_eq!(outbox.put(&name(), leave(), reply_to(), at(200)).len(), 1);
    outbox.link = Link::Up;
    assert!(outbox.has_no_cleanups(), "these are no keys");
    assert_eq!(actions(&take(&mut outbox, 300)), [Action::Leave { again: true }; 2]);
    assert!(take(&mut outbox, 9000).is_empty());
    outbox.owe(leave(), at(9001));
    assert_eq!(take(&mut outbox, 9001).len(), 1, "the node may have run the join just now");
}

#[test]
fn a_refused_delete_ends_with_its_key() {
    let mut outbox = up();
    let job = || delete_of(&claim("k"), clean_up(0, 1001));
    outbox.owe_until_expiry(job(), at(1001));
    assert!(outbox.has_no_cleanups());
    outbox.owe_until_expiry(job(), at(1000));
    assert_eq!(outbox.cleanups(), 1);
}

#[test]
fn a_delete_on_a_newer_connection_than_its_set_is_repeated_once() {
    let job = || delete_of(&claim("k"), clean_up(1000, 60_000));
    let mut outbox = up();
    outbox.repeat(&job(), at(1500));
    assert!(outbox.has_no_cleanups(), "the first connection: first in, first out");
    outbox.disconnect(at(999));
    outbox.repeat(&job(), at(1500));
    assert!(outbox.has_no_cleanups(), "the SET went out on this one");
    outbox.disconnect(at(1200));
    outbox.repeat(&job(), at(1500));
    assert_eq!(outbox.cleanups(), 1, "the SET may be on the old socket");
    let again = take(&mut outbox, 2500);
    assert_eq!(PAUSE, Duration::from_secs(1));
    outbox.lanes.answered(&again);
    outbox.repeat(&again[0].job, at(2500));
    assert!(outbox.has_no_cleanups(), "once is enough");
}

/// Watches that nothing waits for are swept now and then, and a delete is not one of them.
#[test]
fn deletes_outlive_any_number_of_watches_that_failed() {
    let mut outbox = up();
    outbox.owe(delete(&claim("k")), at(1000));
    for _ in 0..1000 {
        let job = Job::new(&claim("other"), Action::Watch);
        outbox.ask_again(Queued { job, reply_to: None, queued: at(0) }, at(2000));
    }
    assert_eq!(outbox.cleanups(), 1);
    assert_eq!(&*take(&mut outbox, 1000)[0].job.claim.key, "k");
}

/// An operator waits until none is left, and other commands are none of them.
#[test]
fn a_delete_counts_until_it_is_answered_and_no_other_command_does() {
    let mut outbox = up();
    put(&mut outbox, delete(&claim(0)));
    put(&mut outbox, Job::new(&claim(1), Action::Clear { wakes: false }));
    put(&mut outbox, Job::leaving(&claim(2), at(5000), false));
    assert_eq!(outbox.cleanups(), 1);
    let items = take(&mut outbox, 0);
    assert_eq!((items.len(), outbox.cleanups()), (3, 1), "in flight");
    outbox.lanes.answered(&items);
    assert!(outbox.has_no_cleanups());
    put(&mut outbox, delete(&claim(0)));
    let items = take(&mut outbox, 0);
    outbox.abandon(&items, at(0));
    assert_eq!(outbox.cleanups(), 1, "it is owed");
}
