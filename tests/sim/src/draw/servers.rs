//! Servers that refuse commands, and servers whose clocks are set back: keys live longer there, which no holder minds.

use super::{
    super::{
        plan::{Fault, Plan, Planned},
        rng::Rng,
    },
    pick,
};

/// The most of these faults in a plan.
const MOST: u64 = 4;

/// Adds such faults to some plans.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x5E4_2E45);
    if plan.calm || !rng.percent(25) {
        return;
    }
    let (max_ttl, nodes) = (plan.settings.max_ttl, plan.nodes.len());
    let operations: usize =
        plan.clients.iter().flat_map(|client| &client.tasks).map(Vec::len).sum();
    for _ in 0..rng.between(1, MOST) {
        let node = rng.index(nodes);
        let faults = [
            (2, Fault::Refuse { node, all: false }),
            (2, Fault::Refuse { node, all: true }),
            (1, Fault::SetBack { node }),
        ];
        let longest = pick(&mut rng, &[(2, max_ttl / 4), (1, max_ttl)]);
        plan.faults.push(Planned {
            operation: rng.below(operations as u64),
            after: rng.below(plan.settings.node_timeout),
            span: 1 + rng.below(longest),
            fault: pick(&mut rng, &faults),
        });
    }
}
