//! What happens while a lock is held.

use super::{
    super::plan::{End, Step},
    Artist, pick,
};

impl Artist<'_> {
    /// What happens while a lock is held, how that ends, and whether it renews itself.
    pub(super) fn holding(&mut self, ttl: u64) -> (Vec<Step>, End, bool) {
        let end = match self.rng.below(10) {
            0..5 => End::Release,
            5..9 => End::Drop,
            _ => End::CancelRelease(u32::try_from(self.rng.below(3)).unwrap()),
        };
        let limit = 2 * ttl + self.rng.below(ttl);
        let goes_on = self.rng.percent(30);
        let until_lost = if goes_on { End::GoesOn(limit) } else { End::UntilLost(limit) };
        let brief = self.rng.below(6);
        match self.rng.below(if self.calm { 75 } else { 100 }) {
            0..25 => (vec![Step::Sleep(brief)], end, true),
            25..40 => (vec![Step::Sleep(self.rng.below(ttl / 2))], end, true),
            // Across renewals.
            40..50 => (vec![Step::Sleep(ttl / 2 + self.rng.below(2 * ttl))], end, true),
            // To the end of its validity.
            50..60 => (vec![Step::Sleep(brief)], until_lost, false),
            60..75 => (self.extensions(), end, self.rng.percent(70)),
            // To the end of its validity, and no task listens.
            75..80 => {
                let isolated = self.isolation(ttl);
                (vec![isolated, Step::SendExtend(self.ttls[2])], end, true)
            }
            80..87 => {
                let mut steps = if self.rng.percent(50) { self.extensions() } else { Vec::new() };
                steps.push(self.isolation(ttl));
                (steps, until_lost, self.rng.percent(80))
            }
            87..94 => {
                let span = ttl / 2 + self.rng.below(ttl);
                (vec![Step::Sleep(brief), Step::Stop(span), Step::Sleep(brief)], end, true)
            }
            _ => {
                let mut steps = if self.rng.percent(50) { self.extensions() } else { Vec::new() };
                let span = 1 + self.rng.below(2 * ttl);
                if self.rng.percent(40) {
                    steps.push(Step::SetBack(1 + self.rng.below(3 * ttl)));
                }
                steps.extend([Step::Freeze(span), Step::Sleep(brief)]);
                if self.rng.percent(40) {
                    steps.push(self.isolation(ttl));
                    return (steps, until_lost, true);
                }
                (steps, end, true)
            }
        }
    }

    pub(super) fn extensions(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            steps.push(Step::Extend(self.ttls[self.rng.index(3)]));
            steps.push(Step::Sleep(self.rng.below(self.ttls[0])));
        }
        steps
    }

    pub(super) fn isolation(&mut self, ttl: u64) -> Step {
        Step::Isolate {
            cut: self.cut(),
            first: self.rng.index(self.nodes),
            count: pick(self.rng, &[(3, self.nodes), (2, self.nodes / 2 + 1), (1, 1)]),
            span: ttl + self.rng.below(2 * ttl),
        }
    }
}
