//! Joining the hold of a body that is around the request.

use std::{cell::LazyCell, sync::Arc};

use super::{BodyGuard, scope};
use crate::{
    client::Client,
    error::LockError,
    guard::LockGuard,
    lease::{Hold, Judgement},
    metrics,
    resources::Resources,
    settings::Terms,
};

/// Joins the hold of a body around this request that has these resources, if there is one. A hold that is lost
/// is joined, too: the body does not run, and is told of the loss. A writer does not join readers: it could only
/// wait for them, and they wait for it.
///
/// # Errors
///
/// `Config` when the request asks for something that the hold does not have.
pub(crate) fn join(
    client: &Client,
    resources: &Resources,
    terms: &Terms,
) -> Result<Option<BodyGuard>, LockError> {
    if resources.check().is_err() {
        // Any hold would have all of no resources. The request itself is refused, and counted.
        return Ok(None);
    }
    let fits_mode = |hold: &Arc<Hold>| {
        (terms.shared || !hold.is_shared()) && terms.permits.is_some() == hold.is_permit()
    };
    let around = scope::own_hold(client, |hold| hold.covers(resources) && fits_mode(hold));
    let Some(guard) = around else { return Ok(None) };
    let metered = metrics::acquiring(&*client.nodes.clock, terms.label);
    let fits = fits(&guard, resources, terms);
    metered.done(if fits.is_ok() { "joined" } else { metrics::outcome(&fits) });
    fits.map(|()| Some(BodyGuard::joining(guard)))
}

/// Whether the hold has what the request asks for.
fn fits(guard: &LockGuard, resources: &Resources, terms: &Terms) -> Result<(), LockError> {
    let hold = guard.hold();
    let missing = if terms.fenced && hold.token.is_none() {
        "a fencing token: add `fenced`"
    } else if terms.min_hold > hold.min_hold {
        "as long a min_hold: add it"
    } else {
        return Ok(());
    };
    Err(LockError::config(format!(
        "the lock on {:?} is held by the body around this request, without {missing} to the \
         outermost request for it",
        resources.name()
    )))
}

/// Whether a request that does not join would wait for the end of a body that waits for this request.
pub(crate) fn waits_for_itself(client: &Client, resources: &Resources, terms: &Terms) -> bool {
    // Nearly all requests are made outside of a body.
    let reading = LazyCell::new(|| client.nodes.clock.read());
    let is_held = |hold: &Arc<Hold>| {
        let is_same = terms.permits.is_some() == hold.is_permit();
        is_same && hold.shares(resources) && !matches!(hold.glance(*reading), Judgement::Ended(_))
    };
    scope::own_hold(client, is_held).is_some()
}
