//! Waiters that leave a queue, and their joins.

use super::*;

#[test]
fn a_waiter_that_leaves_does_not_join_afterwards() {
    let mut outbox = up();
    let (ours, other) = (claim("k"), claim("k"));
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Turn, reads: false };
    put(&mut outbox, Job::new(&ours, join));
    put(&mut outbox, Job::new(&other, join));
    assert!(put(&mut outbox, Job::new(&ours, Action::Leave { again: false })).is_empty());
    assert_eq!(actions(&take(&mut outbox, 0)), [Action::Leave { again: false }, join]);
}

/// A place in the queue may be handed on while its first join still waits: the next waiter joins again.
#[test]
fn no_join_of_a_waiter_that_leaves_is_sent_after_it() {
    let mut outbox = up();
    let (ours, other) = (claim("k"), claim("k"));
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Turn, reads: false };
    for claim in [&ours, &other, &ours, &ours] {
        assert!(put(&mut outbox, Job::new(claim, join)).is_empty());
    }
    assert!(put(&mut outbox, Job::new(&ours, Action::Leave { again: false })).is_empty());
    assert_eq!(actions(&take(&mut outbox, 0)), [Action::Leave { again: false }, join]);
}

/// A crowd that is cancelled must not keep the runtime from renewing what is held. To look for the join of each among
/// those of all takes a minute.
#[test]
fn a_crowd_of_waiters_leaves_in_a_moment() {
    let mut outbox = up();
    let waiters: Vec<_> = (0..100_000).map(claim).collect();
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Turn, reads: false };
    for ours in &waiters {
        put(&mut outbox, Job::new(ours, join));
    }
    let begun = std::time::Instant::now();
    for ours in &waiters {
        put(&mut outbox, Job::new(ours, Action::Leave { again: false }));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A node that does not answer for a while must not gather the joins of all waiters that came and went.
#[test]
fn joins_of_waiters_that_have_left_do_not_pile_up() {
    let mut outbox = up();
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Turn, reads: false };
    for number in 0..10_000 {
        let ours = claim(number);
        put(&mut outbox, Job::new(&ours, join));
        put(&mut outbox, Job::new(&ours, Action::Leave { again: false }));
        outbox.lanes.take_deletes();
    }
    let waiting = outbox.lanes.take_all().len();
    assert!(waiting < 200, "{waiting}");
}

/// It has joined at another node. A leave with a turn to pass on would end that of another client here.
#[test]
fn a_waiter_whose_join_was_not_sent_here_has_no_turn_to_pass_on_here() {
    let (mut there, mut here) = (up(), up());
    let claim = claim(0);
    let join = || {
        let life = Duration::from_secs(5);
        Job::new(&claim, Action::Join { place: 0, life, listens: Listens::Turn, reads: false })
    };
    let listener = free_signal();
    there.put(&name(), join(), ReplyTo::new(&listener, 0), at(0));
    assert_eq!(take(&mut there, 0).len(), 1);
    here.put(&name(), join(), ReplyTo::new(&listener, 1), at(0));
    for (outbox, node, again) in [(&mut here, 1, true), (&mut there, 0, false)] {
        let leave = Job::leaving(&claim, at(5000), false);
        outbox.put(&name(), leave, ReplyTo::new(&listener, node), at(0));
        assert_eq!(actions(&take(outbox, 0)), [Action::Leave { again }], "{node}");
    }
}
