//! Which locks are asked for as one of several permits, and which as one of their readers.

use super::{
    super::{
        plan::{How, Mode, Plan, Take, What},
        rng::Rng,
    },
    pick,
};

/// Has some requests of a plan ask for permits, and others as readers.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x5_4A2E);
    let shares = [(10, 0), (5, 25), (3, 70)];
    let (permits, readers) = (pick(&mut rng, &shares), pick(&mut rng, &shares));
    for count in &mut plan.permits {
        *count = pick(&mut rng, &[(2, 1), (4, 2), (3, 3), (1, 7)]);
    }
    for op in plan.clients.iter_mut().flat_map(|client| client.tasks.iter_mut().flatten()) {
        let What::Take(take) = &mut op.what else { continue };
        if take.how == How::Snipe {
            continue;
        }
        if rng.percent(permits) {
            share(take, Mode::Permit(plan.permits[take.key]));
        } else if rng.percent(readers) {
            share(take, Mode::Reader);
        }
    }
}

/// Such a request is for one key and no token.
fn share(take: &mut Take, mode: Mode) {
    take.mode = mode;
    take.also.clear();
    take.fenced = false;
    if take.overtaken {
        (take.stops, take.overtaken) = (None, false);
    }
}
