//! What bodies ask of the lock that they run under.

use super::{
    super::{
        plan::{Cancel, End, How, Inside, Plan, Settings, Step, Take, What},
        rng::Rng,
    },
    pick,
};

/// Has some bodies of a plan ask for the lock that they have.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x1A_51DE);
    let share = pick(&mut rng, &[(4, 0), (4, 40), (2, 100)]);
    let settings = plan.settings;
    for op in plan.clients.iter_mut().flat_map(|client| client.tasks.iter_mut().flatten()) {
        let What::Take(take) = &mut op.what else { continue };
        if take.has_guard() || !rng.percent(share) {
            continue;
        }
        for _ in 0..rng.between(1, 3) {
            let inside = inside(&mut rng, take, settings);
            take.inside.push(inside);
        }
    }
}

fn inside(rng: &mut Rng, take: &Take, settings: Settings) -> Inside {
    // Moments, and across renewals.
    let most = pick(rng, &[(4, 6), (2, take.ttl / 2), (1, 2 * take.ttl)]);
    let span = rng.below(most);
    match rng.below(100) {
        0..45 => {
            let cancel = match rng.below(10) {
                0 => Some(Cancel::Polls(u32::try_from(rng.below(4)).unwrap_or(0))),
                1 => Some(Cancel::After(rng.below(span + 1))),
                _ => None,
            };
            Inside::Nested { depth: u32::try_from(rng.between(1, 3)).unwrap_or(1), span, cancel }
        }
        45..65 => Inside::Joined([span, rng.below(most)]),
        65..75 => Inside::Moved(span),
        75..85 => Inside::Bare,
        _ => Inside::Spawned {
            take: Box::new(spawned(rng, take, settings)),
            is_awaited: rng.percent(50),
        },
    }
}

/// The request of a task that a body spawns: the same lock, for which it has to wait like any other task.
fn spawned(rng: &mut Rng, take: &Take, settings: Settings) -> Take {
    Take {
        how: pick(rng, &[(2, How::Run), (2, How::Lock), (1, How::Try)]),
        wait: rng.below(5 * settings.retry_delay.min(settings.max_ttl)),
        sleeps: false,
        min_hold: 0,
        max_hold: None,
        stops: None,
        overtaken: false,
        cancel: None,
        steps: vec![Step::Sleep(rng.below(6))],
        end: End::Drop,
        inside: Vec::new(),
        ..take.clone()
    }
}
