//! The reply of a node for a set, from its replies for the keys of it.

use super::{Places, Reply};

/// The replies of one node for the keys of a set, added up.
#[derive(Debug, Default)]
pub(super) struct SetReply {
    /// A key has the value of another client.
    foreign: bool,
    /// A key was not there.
    missing: bool,
    woken: Places,
}

impl SetReply {
    /// Adds the reply for the key at this place of the claim.
    pub(super) fn add(&mut self, place: usize, reply: &Reply) {
        match reply {
            Reply::Foreign => self.foreign = true,
            Reply::Woke { deleted, .. } => {
                self.missing |= !deleted;
                self.woken.add(place);
            }
            Reply::Done => {}
            _ => self.missing = true,
        }
    }

    /// The reply for the set: it is done if it is done for all keys.
    pub(super) fn reply(self) -> Reply {
        let Self { foreign, missing, woken } = self;
        if !woken.is_none() {
            return Reply::Woke { deleted: !foreign && !missing, woken };
        }
        match (foreign, missing) {
            (true, _) => Reply::Foreign,
            (false, true) => Reply::Missing,
            (false, false) => Reply::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_done_if_all_its_keys_are() {
        let woke = |deleted| Reply::Woke { deleted, woken: Places::FIRST };
        let woken = |deleted, places: &[usize]| {
            let mut woken = Places::NONE;
            places.iter().for_each(|place| woken.add(*place));
            Reply::Woke { deleted, woken }
        };
        for (replies, whole) in [
            ([Reply::Done, Reply::Done], Reply::Done),
            ([Reply::Done, Reply::Missing], Reply::Missing),
            ([Reply::Missing, Reply::Foreign], Reply::Foreign),
            ([Reply::Foreign, Reply::Done], Reply::Foreign),
            ([Reply::Done, woke(true)], woken(true, &[1])),
            ([woke(true), woke(true)], woken(true, &[0, 1])),
            ([woke(true), Reply::Missing], woken(false, &[0])),
            ([woke(false), Reply::Done], woken(false, &[0])),
            ([woke(true), Reply::Foreign], woken(false, &[0])),
        ] {
            let mut added = SetReply::default();
            replies.iter().enumerate().for_each(|(place, reply)| added.add(place, reply));
            assert_eq!(added.reply(), whole, "{replies:?}");
        }
    }
}
