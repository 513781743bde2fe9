//! The counter beside a lock from which its fencing tokens come, the same for all clients.
//!
//! | key | what |
//! |---|---|
//! | `LOCK:{LOCK}:fence` | the last number that was given out, as decimal digits |
//!
//! It has the prefix of the queue's keys: it shares the hash slot of the lock, and it begins like the
//! lock, so that an account that may access the locks (`~redlock:*`) may access it too. A lock whose
//! key has a tag of its own needs no second one.

use std::time::Duration;

use super::{Draw, queue_keys};

/// Numbers stay below 2^53, to which scripts count exactly.
pub(crate) const LIMIT: u64 = 1 << 53;

/// How far ahead of a node's own time a client may set its counter, in microseconds: one client with a
/// wrong clock must not use the numbers up.
const MAX_LEAD: u64 = 60_000_000;

/// How long a counter outlives the last number that it gave out. By then every clock shows a larger
/// number than the counter.
pub(crate) const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The key of the counter.
pub(crate) fn key(lock: &str) -> String {
    format!("{}:fence", queue_keys::prefix(lock))
}

/// The first number that a counter gives out, by `time` on its node in microseconds. None when the
/// numbers are used up.
pub(crate) fn first(counter: Option<u64>, draw: Draw, time: u64) -> Option<u64> {
    let floor = draw.floor.min(time.saturating_add(MAX_LEAD));
    let first = counter.unwrap_or(0).saturating_add(1).max(floor);
    (first.saturating_add(u64::from(draw.count)) <= LIMIT).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_begins_like_its_lock_and_shares_its_slot() {
        assert_eq!(key("redlock:a"), "redlock:a:{redlock:a}:fence");
        assert_eq!(key("redlock:{a}:b"), "redlock:{a}:b:fence", "it has a tag already");
        assert_eq!(key("a"), "a:{a}:fence", "an empty prefix");
    }

    #[test]
    fn numbers_start_at_the_clock_and_never_go_back() {
        let draw = |floor, count| Draw { floor, count, life: LIFE };
        assert_eq!(first(None, draw(5, 1), 100), Some(5));
        assert_eq!(first(Some(4), draw(5, 1), 100), Some(5));
        assert_eq!(first(Some(5), draw(5, 1), 100), Some(6));
        assert_eq!(first(None, draw(0, 1), 100), Some(1), "no token is zero");
        assert_eq!(first(None, draw(LIMIT, 1), 100), Some(100 + MAX_LEAD), "a wrong clock");
        assert_eq!(first(Some(LIMIT - 2), draw(5, 1), 100), Some(LIMIT - 1), "the last one");
        assert_eq!(first(Some(LIMIT - 1), draw(5, 1), 100), None);
        assert_eq!(first(Some(LIMIT - 2), draw(5, 2), 100), None);
        assert_eq!(first(Some(u64::MAX), draw(5, 1), 100), None);
    }
}
