//! Reports that are sent ahead of the wait for their answers.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_report_that_was_sent_ahead_is_that_of_the_next_report() {
    let (_nodes, [holder, ours], _guard) = held(1).await;
    let node = &ours.client().nodes[0];
    let mut entry = entry(&ours);
    node.fill(true);
    entry.ask_ahead();
    entry.ask_ahead();
    let sent = node.fill(false);
    assert!(matches!(sent[..], [Action::Join { .. }]), "{sent:?}");
    sleep(MS).await;
    assert_eq!(waiters(&holder).await, 1);
    node.fill(true);
    assert_eq!(position(&mut entry).await.ahead, 0);
    assert!(node.fill(false).is_empty());
    assert_ne!(entry.place(), 0);
    // The report behind it is a new one.
    node.fill(true);
    assert_eq!(entry.report().await, Report::Unanswered);
    assert_eq!(node.fill(false).len(), 1);
    drop(entry);
    sleep(MS).await;
    assert_eq!(waiters(&holder).await, 0);
}

/// The answer says what was true before, and the waiter has to listen again.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_told_does_not_rely_on_what_it_asked_ahead() {
    let (_nodes, [holder, ours], guard) = held(1).await;
    let mut entry = entry(&ours);
    assert_eq!(position(&mut entry).await.ahead, 0);
    entry.ask_ahead();
    sleep(MS).await;
    drop(guard);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Turn));
    let guard = holder.lock("r").await.unwrap();
    assert!(position(&mut entry).await.left.is_some(), "another client has taken it");
    drop(guard);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Turn));
    // A report would forget what was told.
    let guard = holder.lock("r").await.unwrap();
    assert_eq!(position(&mut entry).await.ahead, 0);
    drop(guard);
    sleep(MS).await;
    entry.ask_ahead();
    assert!(!entry.has_asked_ahead());
    assert_eq!(entry.take_signal(), Some(Signal::Turn));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_out_of_date_is_given_up() {
    let (_nodes, [_, ours], guard) = held(1).await;
    let mut entry = entry(&ours);
    entry.ask_ahead();
    sleep(MS).await;
    assert!(entry.has_asked_ahead() && !entry.gives_up_answer(), "it has no place from before");
    assert!(!entry.has_asked_ahead());
    assert!(position(&mut entry).await.left.is_some());
    entry.ask_ahead();
    sleep(MS).await;
    assert!(entry.gives_up_answer(), "it has a place");
    guard.release().await.unwrap();
    entry.take_signal();
    assert_eq!(position(&mut entry).await.left, None);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_was_sent_ahead_leaves_the_queue() {
    let (_nodes, [holder, ours], guard) = held(3).await;
    let mut entry = entry(&ours);
    entry.ask_ahead();
    drop(entry);
    sleep(MS).await;
    assert_eq!(waiters(&holder).await, 0);
    drop(guard);
}

/// Another client would have it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_came_after_the_answer_is_not_given_up() {
    for waits_elsewhere in [false, true] {
        let (nodes, [_, ours], guard) = held(1).await;
        let (next, other) = (client(&nodes), client(&nodes));
        drop(next.lock("warm").await.unwrap());
        let mut first = entry(&ours);
        first.ask_ahead();
        sleep(MS).await;
        let mut behind = entry(&next);
        assert_eq!(position(&mut behind).await.ahead, 1);
        drop(guard);
        sleep(MS).await;
        assert_eq!(first.take_signal(), Some(Signal::Turn));
        if waits_elsewhere {
            assert!(first.gives_up_answer(), "it has its turn");
        }
        // It knows its place, to which it comes back.
        let _taken = other.try_lock("r").await.unwrap();
        assert_eq!(position(&mut first).await.ahead, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_ahead_again_after_it_gave_an_answer_up() {
    let (_nodes, [_, ours], _guard) = held(1).await;
    let mut entry = entry(&ours);
    assert_eq!(position(&mut entry).await.ahead, 0);
    for _ in 0..2 {
        entry.ask_ahead();
        sleep(MS).await;
        assert!(entry.has_asked_ahead());
        assert!(entry.gives_up_answer());
    }
    // One is enough until it is answered.
    let node = &ours.client().nodes[0];
    node.fill(true);
    entry.ask_ahead();
    assert!(entry.gives_up_answer());
    entry.ask_ahead();
    assert!(!entry.has_asked_ahead());
    assert_eq!(node.fill(false).len(), 1);
    sleep(MS).await;
    entry.ask_ahead();
    assert!(entry.has_asked_ahead());
}

/// To leave a queue that has not taken the entry must not end the turn of another waiter.
#[tokio::test(start_paused = true)]
async fn a_node_that_refused_what_was_asked_ahead_has_no_turn_to_pass_on() {
    let left = Arc::<Mutex<Vec<Action>>>::default();
    let seen = Arc::clone(&left);
    let spec = intercepted("a", move |sender, _, commands| {
        let actions = commands.iter().map(|it| it.action);
        seen.lock().extend(actions.filter(|it| matches!(it, Action::Leave { .. })));
        if !commands.iter().any(|it| matches!(it.action, Action::Join { .. })) {
            return sender.send(commands);
        }
        ready(vec![Ok(Reply::Full); commands.len()]).boxed()
    });
    let ours = Redlock::builder().over(vec![spec]);
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    entry.ask_ahead();
    sleep(MS).await;
    assert!(!entry.gives_up_answer());
    drop(entry);
    sleep(MS).await;
    assert!(matches!(left.lock()[..], [Action::Leave { again: true }]), "{:?}", left.lock());
}

/// The next node has not heard of the waiter.
#[tokio::test(start_paused = true)]
async fn an_answer_from_a_node_that_does_not_keep_the_queue_any_more_is_given_up() {
    let (nodes, [holder, ours], _guard) = held(3).await;
    let mut entry = entry(&ours);
    entry.ask_ahead();
    sleep(MS).await;
    assert_eq!(waiters(&holder).await, 1);
    nodes[queue_node_of(&ours)].stop();
    sleep(1000 * MS).await;
    assert_eq!(waiters(&holder).await, 0);
    assert_eq!(position(&mut entry).await.ahead, 0);
    assert_eq!(waiters(&holder).await, 1);
}
