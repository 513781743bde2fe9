//! Which locks of a plan are asked for with a token, and how wrong the wall clocks are. They are drawn
//! apart, so that the rest of a schedule does not depend on them.

use super::rng::Rng;

use super::plan::{Blow, Fault, How, Op, Plan, Planned, What};

/// How wrong a wall clock may be at most, in milliseconds, where nothing depends on it.
const WILD: u64 = 60 * 60 * 1000;

/// What the wall clocks of a plan's clients show.
#[derive(Debug, Clone, Copy)]
enum Walls {
    /// Wrong by less than a node sits out: a counter that was lost starts above its last number.
    Close,
    /// Any time.
    Wild,
    /// The beginning of time. Each node counts on from its own counter, so that the nodes disagree
    /// whenever two clients split them.
    Stopped,
}

/// Decides which locks are asked for with a token, and sets the wall clocks.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0xFE4C_E0FF);
    let share = match rng.below(10) {
        0..4 => 0,
        4..7 => 60,
        _ => 100,
    };
    let close = plan.settings.max_ttl / 5;
    let walls = match rng.below(10) {
        _ if loses_counters(plan) => Walls::Close,
        0..2 => Walls::Close,
        2..4 => Walls::Wild,
        _ => Walls::Stopped,
    };
    let may_lose_locks = !loses_counters(plan);
    for client in &mut plan.clients {
        let most = match walls {
            Walls::Close => close,
            Walls::Wild => WILD,
            Walls::Stopped => 0,
        };
        let error = i64::try_from(rng.below(2 * most + 1)).unwrap_or(0);
        client.wall_error = match walls {
            Walls::Stopped => None,
            Walls::Close | Walls::Wild => Some(error - i64::try_from(most).unwrap_or(0)),
        };
        for op in client.tasks.iter_mut().flatten() {
            let What::Take(take) = &mut op.what else { continue };
            take.fenced = rng.percent(share);
            let waits = take.how == How::Lock && take.wait > 0 && !take.sleeps;
            if take.fenced && waits && take.cancel.is_none() && !plan.calm && rng.percent(6) {
                let woken = u32::try_from(1 + rng.below(3)).unwrap_or(1);
                take.stops = Some((woken, take.ttl / 2 + rng.below(take.ttl)));
            } else if take.fenced && waits && !plan.calm && may_lose_locks && rng.percent(6) {
                // While the client has its numbers and has not confirmed them.
                let woken = if rng.percent(80) { 1 } else { 2 };
                take.stops = Some((woken, take.ttl / 8 + rng.below(take.ttl * 3 / 4)));
                take.overtaken = true;
            }
        }
    }
    if share > 0 && !plan.calm && !loses_counters(plan) && rng.percent(50) {
        for _ in 0..=rng.below(6) {
            let lost = lost_locks(&mut rng, plan);
            plan.faults.push(lost);
        }
    }
}

/// Whether anything in the plan deletes counters.
fn loses_counters(plan: &Plan) -> bool {
    plan.faults.iter().any(|planned| {
        matches!(
            planned.fault,
            Fault::Flush
                | Fault::Restart { empty: true, .. }
                | Fault::RollingRestart { empty: true, .. }
                | Fault::QueueNode { blow: Blow::Stops { empty: true }, .. }
        )
    })
}

/// Whether anything in the plan deletes locks.
pub(super) fn loses_locks(plan: &Plan) -> bool {
    let is_overtaken = |op: &Op| matches!(&op.what, What::Take(take) if take.overtaken);
    loses_counters(plan)
        || plan.faults.iter().any(|planned| matches!(planned.fault, Fault::FlushLocks { .. }))
        || plan.clients.iter().flat_map(|client| client.tasks.iter().flatten()).any(is_overtaken)
}

/// Locks go from some nodes while they are held. Tokens have to be right all the same.
fn lost_locks(rng: &mut Rng, plan: &Plan) -> Planned {
    let nodes = plan.nodes.len();
    let operations: usize =
        plan.clients.iter().flat_map(|client| &client.tasks).map(Vec::len).sum();
    Planned {
        operation: rng.below(operations as u64),
        after: rng.below(4 * plan.distances.longest() + plan.settings.node_timeout),
        span: if rng.percent(60) { 1 + rng.below(2 * plan.distances.longest() + 20) } else { 0 },
        fault: Fault::FlushLocks { first: rng.index(nodes), count: 1 + rng.index(nodes) },
    }
}
