//! What must hold of fencing tokens: each holder has a larger number than all holders before.
//!
//! A number from the nodes is larger than every token that was returned before its call began. A number
//! that one task hands to the next is larger than every token returned so far. Ranges are disjoint, and
//! no token is given twice.
//!
//! A counter that was lost starts again from the clock of the client that asks. Its numbers are larger
//! than all before if the node sits out for longer than the wall clocks differ, or if more time than
//! that has passed anyway.

use std::collections::{BTreeMap, BTreeSet};

/// How far one range may be ahead of the clock, rounding included, in milliseconds.
const SLACK: u64 = 5;

/// All tokens of one schedule.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    keys: BTreeMap<usize, Key>,
    /// How far any wall clock was from the right time, in milliseconds.
    wall_error: u64,
    /// How long a node sits out, in milliseconds of any clock.
    sits_out: u64,
    /// A node has lost its counters by a restart.
    restarted: bool,
    /// All nodes have lost their counters, and no node sits out.
    flushed: bool,
}

/// The tokens of one key.
#[derive(Debug, Default)]
struct Key {
    /// In the order in which they were returned: when, in true milliseconds, and the largest so far.
    returned: Vec<(u64, u64)>,
    given: BTreeSet<u64>,
    /// The last number of each range and the claim it came with, by its first.
    ranges: BTreeMap<u64, (u64, u64)>,
}

/// The token of one holder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) key: usize,
    pub(super) token: u64,
    /// The first number and the last of its range.
    pub(super) range: (u64, u64),
    pub(super) claim: u64,
    /// The result of [`Tokens::call`] when it asked.
    pub(super) call: Call,
    pub(super) now: u64,
    /// All keys were deleted under this holder, so that other clients may have had the lock meanwhile.
    pub(super) is_flushed: bool,
}

/// When a client asked: how many tokens had been returned by then, and the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    returned: usize,
    at: u64,
}

impl Tokens {
    /// How long a node sits out.
    pub(super) fn sits_out(&mut self, span: u64) {
        self.sits_out = span;
    }

    /// A wall clock was this far from the right time.
    pub(super) fn wall_is_off_by(&mut self, error: u64) {
        self.wall_error = self.wall_error.max(error);
    }

    /// How far any wall clock was from the right time, in milliseconds.
    pub(super) fn wall_error(&self) -> u64 {
        self.wall_error
    }

    pub(super) fn restarted_empty(&mut self) {
        self.restarted = true;
    }

    pub(super) fn flushed(&mut self) {
        self.flushed = true;
    }

    /// A client asks for a key.
    pub(super) fn call(&self, key: usize, now: u64) -> Call {
        Call { returned: self.keys.get(&key).map_or(0, |key| key.returned.len()), at: now }
    }

    /// How much later than a token a call must begin, so that its own token is larger. Zero where that
    /// does not depend on a clock.
    fn gap(&self) -> u64 {
        let differ = 2 * self.wall_error + SLACK;
        if self.flushed || self.restarted && differ >= self.sits_out { differ } else { 0 }
    }

    /// A client was given a token. Answers what is wrong with that.
    pub(super) fn give(&mut self, given: Given) -> Option<String> {
        let Given { key, token, range, claim, call, now, is_flushed } = given;
        let (first, last) = range;
        let gap = self.gap();
        let known = self.keys.entry(key).or_default();
        let is_first = token == first;
        // A number that is handed on is larger than all: no other client had the lock meanwhile.
        let (count, at) =
            if is_first { (call.returned, call.at) } else { (known.returned.len(), now) };
        let earlier = &known.returned[..count];
        let earlier = &earlier[..earlier.partition_point(|(when, _)| gap == 0 || when + gap < at)];
        let most = earlier.last().map_or(0, |(_, largest)| *largest);
        let excused = is_flushed && !is_first;
        let mut wrong = None;
        if token <= most && !excused {
            let how = if is_first { "from the nodes" } else { "handed on" };
            wrong = Some(format!("the token {token}, {how}, follows {most}"));
        }
        if gap == 0 && !known.given.insert(token) {
            wrong = wrong.or_else(|| Some(format!("the token {token} is given twice")));
        }
        let before = known.ranges.range(..=last).next_back().map(|(first, it)| (*first, *it));
        if gap == 0
            && let Some((other, (end, whose))) = before
            && end >= first
            && (other, end, whose) != (first, last, claim)
        {
            let told = format!("the range {first}..={last} overlaps with {other}..={end}");
            wrong = wrong.or(Some(told));
        }
        known.ranges.insert(first, (last, claim));
        let largest = known.returned.last().map_or(0, |(_, largest)| *largest).max(token);
        known.returned.push((now, largest));
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(tokens: &Tokens, token: u64, range: (u64, u64), now: u64) -> Given {
        let call = tokens.call(0, now);
        Given { key: 0, token, range, claim: range.0, call, now, is_flushed: false }
    }

    fn give(tokens: &mut Tokens, token: u64, range: (u64, u64), now: u64) -> Option<String> {
        let given = given(tokens, token, range, now);
        tokens.give(given)
    }

    #[test]
    fn tokens_that_grow_are_well() {
        let mut tokens = Tokens::default();
        for (token, range) in [(5, (5, 7)), (6, (5, 7)), (8, (8, 8)), (20, (20, 30))] {
            assert_eq!(give(&mut tokens, token, range, 0), None);
        }
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        for (token, range) in [(5, (5, 5)), (4, (4, 4)), (6, (6, 9)), (7, (5, 8)), (6, (5, 7))] {
            let mut tokens = Tokens::default();
            assert_eq!(give(&mut tokens, 5, (5, 7), 0), None);
            assert_eq!(give(&mut tokens, 6, (5, 7), 0), None);
            assert!(give(&mut tokens, token, range, 0).is_some(), "{token} of {range:?}");
        }
    }

    #[test]
    fn only_tokens_from_before_the_call_count() {
        let mut tokens = Tokens::default();
        let early = given(&tokens, 5, (5, 5), 0);
        assert_eq!(give(&mut tokens, 6, (6, 6), 0), None);
        assert_eq!(tokens.give(early), None);
        let handed_on = Given { token: 4, range: (3, 4), ..early };
        assert!(tokens.give(handed_on).is_some(), "but a number that is handed on is the largest");
    }

    #[test]
    fn clocks_excuse_only_what_they_may() {
        let mut tokens = Tokens::default();
        tokens.sits_out(100);
        tokens.wall_is_off_by(20);
        tokens.restarted_empty();
        assert_eq!(give(&mut tokens, 9, (9, 9), 0), None);
        assert!(give(&mut tokens, 8, (8, 8), 10).is_some(), "a node sits out for longer");
        tokens.flushed();
        assert_eq!(give(&mut tokens, 7, (7, 7), 45), None);
        assert!(give(&mut tokens, 6, (6, 6), 46).is_some());
    }
}
