//! Random numbers that can be repeated: SplitMix64, which is small, fast, and good enough to choose faults.

use std::time::Duration;

/// A generator of random numbers. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator, independent of this one.
    pub(crate) fn branch(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// True in this many of a hundred cases.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// In milliseconds, from `least` to `most`.
    pub(crate) fn millis(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis(u64::try_from(least + self.below(most - least + 1)).unwrap())
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// This many different numbers below `end`.
    pub(crate) fn distinct(&mut self, count: usize, end: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..end).collect();
        (0..count).map(|_| rest.swap_remove(self.below(rest.len()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_tells_everything() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (chance.next(), chance.below(7), chance.millis(5, 9), chance.distinct(3, 5))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1).0, draw(2).0);
    }

    #[test]
    fn what_is_drawn_is_in_its_bounds() {
        let mut chance = Chance::new(3);
        for _ in 0..1000 {
            assert!(chance.below(3) < 3);
            let span = chance.millis(5, 6).as_millis();
            assert!(span == 5 || span == 6);
            let mut some = chance.distinct(3, 5);
            some.sort_unstable();
            some.dedup();
            assert!(some.len() == 3 && some.iter().all(|one| *one < 5));
        }
    }
}
