//! The queues that a node keeps, of the locks that are released there in one call.

use std::sync::Arc;

use crate::node::{Action, Command};

/// A lock that is released here whose queue this node keeps.
pub(super) struct WokenQueue<'a> {
    /// Its number in the call.
    pub(super) number: usize,
    pub(super) key: &'a Arc<str>,
    /// It was taken in a turn, which is over.
    pub(super) has_turn: bool,
}

/// The locks of these commands whose queues are kept here, in order.
pub(super) fn woken_queues(commands: &[Command]) -> Vec<WokenQueue<'_>> {
    let (mut kept, mut before) = (Vec::new(), 0);
    for Command { claim, action } in commands {
        if let Action::Release { wakes } = action
            && !wakes.is_none()
        {
            let places = (0..).zip(claim.keys()).filter(|(place, _)| wakes.has(*place));
            kept.extend(places.map(|(place, key)| {
                let number = before + place + 1;
                WokenQueue { number, key, has_turn: claim.has_turn }
            }));
        }
        before += claim.len();
    }
    kept
}
