//! Pauses before a turn for a permit is taken. Waiters that take turns in vain would pass them round without one.

use super::*;

/// The node may have forgotten the permits.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_a_hesitation_unless_it_is_for_a_permit() {
    for is_for_permit in [true, false] {
        let nodes = nodes(3);
        let (ours, held) = none_left(&nodes).await;
        let client = ours.client();
        let terms = terms(client, &LockOptions::default().permits(1));
        let (mut request, mut front) = permit_request(client, &terms, 1);
        joins_queue(&mut request, &mut front).await;
        let mut fronts = Fronts::one(front);
        // Each turn in vain doubles the pause.
        for _ in 0..8 {
            request.hesitate(&mut fronts, true).await.unwrap();
        }
        held.release().await.unwrap();
        sleep(SECOND / 100).await;
        if !is_for_permit {
            request.permits = None;
        }
        let begun = Instant::now();
        request.hesitate(&mut fronts, true).await.unwrap();
        assert_eq!(begun.elapsed() > Duration::ZERO, is_for_permit);
    }
}

/// An attempt without a quorum sends nothing, and finds no permit.
#[tokio::test(start_paused = true)]
async fn a_turn_behind_one_that_was_in_vain_is_taken_after_a_pause() {
    for (was_asked, no_quorum, last, is_put_off) in [
        (false, false, Chance::Turn, false),
        (true, false, Chance::Turn, true),
        (false, true, Chance::Turn, true),
        (false, true, Chance::Notified, false),
    ] {
        let nodes = nodes(3);
        let (ours, held) = none_left(&nodes).await;
        let client = ours.client();
        let terms = terms(client, &LockOptions::default().permits(1).wait(60 * SECOND));
        let (mut request, mut front) = permit_request(client, &terms, 1);
        joins_queue(&mut request, &mut front).await;
        held.release().await.unwrap();
        sleep(SECOND / 100).await;
        if no_quorum {
            // A client that is cut off for a moment keeps its place.
            nodes.iter().for_each(MemoryNode::stop);
            sleep(SECOND / 100).await;
            assert!(front.entry.as_mut().unwrap().was_cut_off(false));
            nodes.iter().for_each(MemoryNode::start);
        }
        let mut fronts = Fronts::one(front);
        // Each turn in vain doubles the pause, which is drawn.
        for _ in 0..8 {
            request.wake_backoff.hesitation(true, Duration::ZERO, SECOND);
        }
        request.last = Some(last);
        let failure = FailedAttempt { was_asked, no_quorum, ..FailedAttempt::full() };
        let begun = Instant::now();
        let chance = request.pause(&mut fronts, Some(&failure)).await.unwrap();
        let is_late = begun.elapsed() > Duration::ZERO;
        assert_eq!((chance, is_late), (Chance::Turn, is_put_off), "{failure:?} {last:?}");
    }
}
