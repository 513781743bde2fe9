//! Whether a node's clock keeps up with the client's, judged by what is left of the client's own keys. A node drops a
//! lock early when its clock is set forward, and no client can prevent that (fault 18). Pure.

use std::time::Duration;

use super::Reply;
use crate::clock::Moment;

/// The expected remaining time of a key that a node confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The node keeps the key until this moment at least.
    pub(crate) until: Moment,
    /// The node was never asked to keep the key for longer than this at once.
    pub(crate) longest: Duration,
    /// The most that clocks at different rates and whole milliseconds account for.
    pub(crate) allowance: Duration,
}

impl Expected {
    /// The deviation of a reply that arrived at `now`, if there is any.
    pub(crate) fn anomaly(&self, reply: &Reply, now: Moment) -> Option<String> {
        let least = self.until.since(now).saturating_sub(self.allowance);
        match reply {
            Reply::Missing | Reply::Foreign if !least.is_zero() => {
                Some(format!("it is gone {least:?} before its time"))
            }
            Reply::There { left } if *left < least => {
                Some(format!("{left:?} are left of it where at least {least:?} should be"))
            }
            Reply::There { left } if *left > self.longest.saturating_add(self.allowance) => {
                let longest = self.longest;
                Some(format!("{left:?} are left of it where at most {longest:?} were asked for"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_remaining_time_is_compared_with_both_ends_of_its_range() {
        let ten_seconds = Expected {
            until: Moment::ORIGIN + ms(10_000),
            longest: ms(10_000),
            allowance: ms(102),
        };
        let odd = |reply, now| ten_seconds.anomaly(&reply, Moment::ORIGIN + ms(now)).is_some();
        let left = |left| Reply::There { left: ms(left) };
        // 4 s later, 6 s are left.
        assert!(!odd(left(6000), 4000));
        assert!(!odd(left(5898), 4000));
        assert!(odd(left(5897), 4000), "the node's clock is ahead");
        // It may have been asked any time up to now.
        assert!(!odd(left(10_102), 4000));
        assert!(odd(left(10_103), 4000), "the node's clock was set back");
        assert!(odd(Reply::Missing, 4000) && odd(Reply::Foreign, 4000));
        assert!(!odd(Reply::Missing, 9900), "it may have expired by now");
        assert!(!odd(Reply::Done, 0));
    }
}
