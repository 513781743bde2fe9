//! The numbers that come with a lease: pure.
//!
//! A lease that passes from task to task needs a larger token for each task. A round trip for each
//! token would cost the time that passing the lease on saves. So a grant reserves several numbers,
//! and its lease hands them out.

use super::FencingToken;

/// The most numbers that one grant reserves. A counter must not run ahead of the clock, because a
/// lost counter starts again from the clock. A counter may grow by a million in a second, which is
/// more than the holders that a second has room for.
pub(crate) const MAX_NUMBERS: u32 = 1024;

/// How many numbers a grant reserves for a lock that `waiting` tasks of this client wait for. `used` is
/// the size of the range that the lease has used up before: a range that was too small is followed by
/// one of twice its size.
pub(crate) fn numbers_for(waiting: usize, used: u32) -> u32 {
    if waiting == 0 {
        return 1;
    }
    let waiting = u32::try_from(waiting).unwrap_or(MAX_NUMBERS);
    waiting.saturating_add(1).max(used.saturating_mul(2)).min(MAX_NUMBERS)
}

/// Numbers that a quorum of nodes has reserved for one lease, and that no other lease has. It is not
/// `Copy`, because each number is handed out once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    first: u64,
    size: u32,
    /// How many of them were handed out.
    used: u32,
}

impl Range {
    pub(crate) fn new(first: u64, size: u32) -> Self {
        Self { first, size, used: 0 }
    }

    /// The next number, if one is left.
    pub(crate) fn next(&mut self) -> Option<FencingToken> {
        let number = self.first + u64::from(self.used);
        let is_left = self.used < self.size;
        self.used += u32::from(is_left);
        is_left.then_some(FencingToken::new(number))
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_hands_out_each_of_its_numbers_once() {
        let mut range = Range::new(7, 3);
        let mut handed_out = Vec::new();
        while let Some(token) = range.next() {
            handed_out.push(token.get());
        }
        assert_eq!(handed_out, [7, 8, 9]);
        assert_eq!(range.next(), None);
    }

    #[test]
    fn a_range_follows_the_number_of_waiters() {
        assert_eq!(numbers_for(0, 0), 1, "no number is wasted where no task waits");
        assert_eq!(numbers_for(0, 64), 1);
        assert_eq!(numbers_for(1, 0), 2);
        assert_eq!(numbers_for(15, 0), 16);
        assert_eq!(numbers_for(15, 16), 32, "it was used up");
        assert_eq!(numbers_for(15, MAX_NUMBERS), MAX_NUMBERS);
        assert_eq!(numbers_for(usize::MAX, 0), MAX_NUMBERS);
    }
}
