//! Which locks go from process to process.

use super::{
    super::{
        plan::{Cancel, Crash, End, HandOff, Plan, Settings, Take, What},
        rng::Rng,
    },
    pick,
};

/// Has some holders of a plan hand their locks to other processes.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x4A_AD0F);
    let share = pick(&mut rng, &[(6, 0), (3, 15), (1, 60)]);
    let (settings, calm) = (plan.settings, plan.calm);
    for op in plan.clients.iter_mut().flat_map(|client| client.tasks.iter_mut().flatten()) {
        let What::Take(take) = &mut op.what else { continue };
        if take.has_guard() && rng.percent(share) {
            take.end = End::HandOff(hand_off(&mut rng, take, settings, calm));
        }
    }
}

fn hand_off(rng: &mut Rng, take: &Take, settings: Settings, calm: bool) -> HandOff {
    let (ttl, timeout) = (take.ttl, settings.node_timeout);
    // At once, soon, and about when its validity ends.
    let on_its_way = |rng: &mut Rng| {
        let spans = [(3, 0, 3), (3, 0, timeout), (3, 0, ttl / 2), (2, ttl / 2, ttl)];
        let (_, least, more) = pick(rng, &spans.map(|span| (span.0, span)));
        least + rng.below(more)
    };
    let after = on_its_way(rng);
    let again = rng.percent(40).then(|| {
        let later = if rng.percent(50) { after + rng.below(4) } else { on_its_way(rng) };
        (rng.index(8), later)
    });
    let crash = match rng.below(100) {
        _ if calm => None,
        0..12 => Some(Crash::Giver(rng.below(after + 2))),
        12..22 => Some(Crash::Taker(rng.below(2 * timeout))),
        _ => None,
    };
    let cancel = match rng.below(10) {
        0 => Some(Cancel::Polls(u32::try_from(rng.below(5)).unwrap_or(0))),
        1 => Some(Cancel::After(rng.below(timeout))),
        _ => None,
    };
    let hold = pick(rng, &[(3, 6), (2, ttl / 2), (1, 2 * ttl)]);
    HandOff {
        to: rng.index(8),
        after,
        again,
        crash,
        cancel,
        hold: rng.below(hold),
        hops: u32::try_from(rng.below(6).saturating_sub(3)).unwrap_or(0),
    }
}
