//! Which clients campaign for a role.

use super::super::{
    plan::{How, Mode, Plan, What},
    rng::Rng,
};

/// Has some bodies of a plan run in the terms of a leader.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed ^ 0x1EAD);
    for op in plan.clients.iter_mut().flat_map(|client| client.tasks.iter_mut().flatten()) {
        let What::Take(take) = &mut op.what else { continue };
        let may_lead = take.how == How::Run && take.mode == Mode::Writer && take.inside.is_empty();
        if may_lead && rng.percent(15) {
            take.how = How::Lead { terms: u32::try_from(1 + rng.below(3)).unwrap_or(1) };
            take.also.clear();
            // A term always has a token, is renewed, and is waited for until it comes.
            (take.fenced, take.auto_extend, take.retry_count) = (true, true, None);
        }
    }
}
