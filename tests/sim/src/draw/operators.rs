//! What operators do while clients work.

use super::{
    super::{
        plan::{Deed, Operation, Plan},
        rng::Rng,
    },
    pick,
};

/// The most that the operator of one client does.
const MOST: u64 = 6;

/// Has operators look at the locks of some plans, and take some of them away.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x04E4_A704);
    // How many in a hundred take a lock away, and how many delete it.
    let kinds = [(60, None), (18, Some((0, 0))), (14, Some((40, 0))), (8, Some((20, 40)))];
    let Some((taken, deleted)) = pick(&mut rng, &kinds) else { return };
    let (max_ttl, node_timeout) = (plan.settings.max_ttl, plan.settings.node_timeout);
    // A crowd has few operators.
    let share = if plan.clients.len() > 8 { 15 } else { 60 };
    for client in &mut plan.clients {
        if !rng.percent(share) {
            continue;
        }
        for _ in 0..rng.between(1, MOST) {
            let most = pick(&mut rng, &[(2, node_timeout), (3, max_ttl / 4), (1, max_ttl)]);
            let (after, chance) = (rng.below(most), rng.below(100));
            let deed = match chance {
                _ if chance < taken => Deed::ForceRelease,
                _ if chance < taken + deleted => Deed::ForceReleaseNow,
                _ => Deed::Inspect,
            };
            client.operations.push(Operation { after, key: rng.index(plan.keys), deed });
        }
    }
}
