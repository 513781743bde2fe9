//! When a client asks although nothing tells it of a chance.

use super::*;

fn around(now: u64, watch: WatchState) -> Snapshot {
    Snapshot { now: at(now), in_queue: false, watch, turn_of_others: None }
}

/// The watch of a front may be minutes old. The nodes may be back in a moment, and tell of the lock then.
#[test]
fn a_client_asks_a_pause_after_its_watch_has_lost_the_nodes() {
    use WatchState::{Armed, Unarmed};
    let sleep = |until, quiet| Step::Sleep { until: at(until), quiet: ms(quiet) };
    let mut waiting = waiting(false);
    waiting.watching(at(0));
    for (now, watch, step) in [
        (2000, Armed, sleep(3500, 0)),
        (5000, Unarmed, sleep(5150, 100)),
        (5100, Unarmed, sleep(5150, 100)),
        (5120, Armed, sleep(6620, 0)),
        (5200, Unarmed, sleep(5350, 100)),
        (5350, Unarmed, Step::End(Chance::Due)),
    ] {
        assert_eq!(waiting.next(&around(now, watch)), step, "{now}: {watch:?}");
    }
}

/// The nodes are well again, and hold the lock. The requests behind the client were told that there is no quorum.
#[test]
fn a_client_asks_once_more_after_an_attempt_without_a_quorum() {
    let lacked = WaitTerms { end: at(90_000), asks_again: Some((at(150), Chance::Again)), ..GIVEN };
    for (given, until) in [(lacked, 150), (WaitTerms { asks_again: None, ..lacked }, 1501)] {
        let mut waiting = WaitPlan::new(given, false);
        let step = waiting.next(&around(1, WatchState::Armed));
        // What is told while it is deaf is lost on it: requests behind it that would ask by then do.
        let quiet = if given.asks_again.is_some() { given.pace } else { ms(0) };
        assert_eq!(step, Step::Sleep { until: at(until), quiet });
        let asks = waiting.next(&around(150, WatchState::Armed)) == Step::End(Chance::Again);
        assert_eq!(asks, given.asks_again.is_some());
        // It may have kept its place.
        let mut waiting = WaitPlan::new(given, true);
        for (now, left, asks) in
            [(1, Some(9000), false), (200, None, false), (200, Some(9000), true)]
        {
            let told = QueueAnswer { now: at(now), ..answer(place(1, left)) };
            let conclusion = waiting.reported(&told);
            let has_to_ask = asks && given.asks_again.is_some();
            assert_eq!(conclusion == Conclusion::End(Chance::Again), has_to_ask);
            assert!(now > 1 || waiting.report_at == at(until.min(1501)));
        }
    }
}
