//! The reply of a node for a set, from its replies for the keys of it.

use super::{Reply, Told};

/// The replies of one node for the keys of a set, added up.
#[derive(Debug, Default)]
pub(super) struct SetReply {
    /// A key has the value of another client.
    foreign: bool,
    /// A key was not there.
    missing: bool,
    told: Told,
}

impl SetReply {
    /// Adds the reply for the key at this place of the claim.
    pub(super) fn add(&mut self, place: usize, reply: &Reply) {
        match reply {
            Reply::Foreign => self.foreign = true,
            Reply::Woke { deleted, told } => {
                self.missing |= !deleted;
                self.told.add(place, told);
            }
            Reply::Done => {}
            _ => self.missing = true,
        }
    }

    /// The reply for the set: it is done if it is done for all keys.
    pub(super) fn reply(self) -> Reply {
        let Self { foreign, missing, told } = self;
        if !told.is_empty() {
            return Reply::Woke { deleted: !foreign && !missing, told };
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
        let woken = |deleted, waiters: &[(usize, &str)]| Reply::Woke {
            deleted,
            told: Told::named(waiters),
        };
        let woke = |deleted| woken(deleted, &[(0, "a")]);
        for (replies, whole) in [
            ([Reply::Done, Reply::Done], Reply::Done),
            ([Reply::Done, Reply::Missing], Reply::Missing),
            ([Reply::Missing, Reply::Foreign], Reply::Foreign),
            ([Reply::Foreign, Reply::Done], Reply::Foreign),
            ([Reply::Done, woke(true)], woken(true, &[(1, "a")])),
            ([woke(true), woke(true)], woken(true, &[(0, "a"), (1, "a")])),
            ([woke(true), Reply::Missing], woken(false, &[(0, "a")])),
            ([woke(false), Reply::Done], woken(false, &[(0, "a")])),
            ([woke(true), Reply::Foreign], woken(false, &[(0, "a")])),
        ] {
            let mut added = SetReply::default();
            replies.iter().enumerate().for_each(|(place, reply)| added.add(place, reply));
            assert_eq!(added.reply(), whole, "{replies:?}");
        }
    }
}
