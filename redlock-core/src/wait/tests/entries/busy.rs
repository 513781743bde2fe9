//! Nodes that are too busy to answer in time.

use super::*;

/// Rule 18: in a crowd, a report waits for longer than its waiter waits for the answer.
#[tokio::test(start_paused = true)]
async fn a_waiter_has_one_report_under_way_however_long_the_node_is_busy() {
    let (_nodes, [holder, ours], guard) = held(1).await;
    sleep(MS).await;
    let node = &ours.client().nodes[0];
    let mut entry = entry(&ours);
    node.fill(true);
    assert_eq!(entry.report().await, Report::Unanswered);
    let other = Arc::new(Claim::new(&"redlock:other".into(), "v".to_owned()));
    let other = NodeQuestion::ask(&ours.client().nodes, 0, Job::new(&other, Action::Watch));
    for _ in 0..3 {
        assert_eq!(entry.report().await, Report::Unanswered);
        // The waiter looks elsewhere, and comes back to the same report.
        assert!(timeout(MS, entry.report()).await.is_err());
    }
    // It has kept its place before what came later.
    let waiting = node.fill(false);
    assert!(matches!(waiting[..], [Action::Join { .. }, Action::Watch]), "{waiting:?}");
    other.answer(&ours.client().nodes).await.unwrap().unwrap();
    assert_eq!(position(&mut entry).await.ahead, 0);
    // That answer is used up: the next report is a new one.
    assert_eq!(position(&mut entry).await.ahead, 0);
    assert_eq!(waiters(&holder).await, 1);
    node.fill(true);
    assert_eq!(entry.report().await, Report::Unanswered);
    node.fill(false);
    sleep(MS).await;
    // It is answered while no task waits for it: what it says may be old, and is asked again.
    drop(guard);
    sleep(MS).await;
    assert_eq!(position(&mut entry).await.left, None);
    node.fill(true);
    assert_eq!(entry.report().await, Report::Unanswered);
    drop(entry);
    assert!(!node.fill(true).iter().any(|it| matches!(it, Action::Join { .. })));
    node.fill(false);
    sleep(MS).await;
    assert_eq!(waiters(&holder).await, 0);
}

/// A push has used up what the waiter listened to, and the report that still waits to be sent does not listen again.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_told_listens_again_although_a_report_is_under_way() {
    let (_nodes, [holder, ours], guard) = held(1).await;
    let node = &ours.client().nodes[0];
    let mut entry = entry(&ours);
    for _ in 0..2 {
        assert_eq!(position(&mut entry).await.ahead, 0);
    }
    node.fill(true);
    assert_eq!(entry.report().await, Report::Unanswered);
    drop(guard);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Turn));
    // It does not use its turn.
    let guard = holder.lock("r").await.unwrap();
    let empties = async {
        sleep(MS).await;
        node.fill(false)
    };
    let (report, waiting) = tokio::join!(entry.report(), empties);
    assert!(matches!(report, Report::At(position) if position.ahead == 0), "{report:?}");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    drop(guard);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Turn));
}

/// A crowd that moves on from node to node makes each of them late, and no client hears its turn.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_busy_to_answer_keeps_the_queue() {
    let (nodes, [holder, ours], guard) = held(3).await;
    let mut entry = entry(&ours);
    nodes[queue_node_of(&ours)].slow(60 * MS);
    assert_eq!(entry.report().await, Report::Unanswered);
    nodes[queue_node_of(&ours)].slow(Duration::ZERO);
    sleep(100 * MS).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Turn));
    assert!(entry.has_turn());

    let guard = holder.lock("r").await.unwrap();
    nodes[queue_node_of(&ours)].slow(60 * MS);
    assert_eq!(entry.report().await, Report::Unanswered);
    // The third timeout in a row ends the connection (rule 15).
    let before = queue_node_of(&ours);
    assert_eq!(position(&mut entry).await.ahead, 0);
    assert_ne!(queue_node_of(&ours), before);
    assert!(listens(&ours));
    drop((entry, guard));
    assert!(!listens(&ours));
    nodes[before].slow(Duration::ZERO);
    sleep(MINUTE).await;
    assert!(are_empty(&nodes));
}
