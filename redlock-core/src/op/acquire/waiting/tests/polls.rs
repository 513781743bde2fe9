//! When a client asks although nothing tells it of a chance.

use super::*;

fn around(now: u64, watch: WatchState) -> Surroundings {
    Surroundings { now: at(now), in_queue: false, watch, turn_of_others: None }
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
