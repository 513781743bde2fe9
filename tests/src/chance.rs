//! Random choices that can be repeated.

use std::time::Duration;

/// Chooses at random. The same seed gives the same choices.
#[derive(Debug, Clone)]
pub(crate) struct Chance(fastrand::Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Another one, whose choices do not depend on those of this one.
    pub(crate) fn branch(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
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
            (chance.below(usize::MAX), chance.millis(5, 9), chance.distinct(3, 5))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1).0, draw(2).0);
        let mut first = Chance::new(1);
        let (mut second, mut third) = (first.branch(), first.branch());
        let [first, second, third] =
            [&mut first, &mut second, &mut third].map(|it| it.below(usize::MAX));
        assert!(first != second && second != third && third != first);
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
