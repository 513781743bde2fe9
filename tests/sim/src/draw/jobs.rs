//! Jobs that are due at the same time on all clients.

use super::{
    super::{
        plan::{End, How, Job, Mode, Plan, Step, Take, tick},
        rng::Rng,
    },
    pick,
};

/// Has the clients of some plans do a job at each tick.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x10_B5);
    if !rng.percent(25) {
        return;
    }
    let (max_ttl, node_timeout) = (plan.settings.max_ttl, plan.settings.node_timeout);
    let min_hold = rng.between(max_ttl / 4, max_ttl);
    let period = pick(&mut rng, &[(2, min_hold / 2), (1, 2 * min_hold)]);
    let ttl = pick(&mut rng, &[(2, 3 * node_timeout), (1, max_ttl)]);
    let long = 20 * node_timeout.max(4 * plan.distances.longest());
    let wait = pick(&mut rng, &[(1, 0), (1, 2 * node_timeout), (3, long)]);
    // How far the clocks of the replicas differ.
    let apart = pick(&mut rng, &[(1, 0), (1, node_timeout), (2, min_hold / 3)]);
    let ticks = 1 + rng.index(4);
    let begin = rng.below(2 * max_ttl);
    if plan.calm && wait == long {
        plan.ticks = (0..ticks).map(tick).collect();
    }
    let calm = plan.calm;
    for client in &mut plan.clients {
        let wrong = rng.below(apart + 1);
        for number in 0..ticks {
            let most = pick(&mut rng, &[(4, 0), (3, node_timeout), (1, 2 * min_hold)]);
            let late = rng.below(most + 1);
            let span = pick(&mut rng, &[(3, 6), (1, ttl), (1, 2 * min_hold)]);
            let take = Take {
                key: tick(number),
                how: pick(&mut rng, &[(2, How::Run), (1, How::Continue)]),
                ttl,
                wait,
                min_hold,
                steps: vec![Step::Sleep(rng.below(span))],
                fenced: rng.percent(15),
                ..plain()
            };
            let crashes = !calm && rng.percent(8);
            let crash = crashes.then(|| rng.below(4 * node_timeout));
            let at = begin + number as u64 * period + wrong + late;
            client.jobs.push(Job { at, take, crash });
        }
    }
}

/// A lock of its own for each tick.
fn plain() -> Take {
    Take {
        key: 0,
        also: Vec::new(),
        how: How::Run,
        mode: Mode::Writer,
        ttl: 0,
        wait: 0,
        sleeps: false,
        retry_count: None,
        auto_extend: true,
        drift: None,
        min_hold: 0,
        max_hold: None,
        stops: None,
        overtaken: false,
        cancel: None,
        steps: Vec::new(),
        end: End::Drop,
        fenced: false,
        keep_handle: false,
        inside: Vec::new(),
    }
}
