//! Commands that wait to be sent, in order. Those of one claim are found at once, also among thousands.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{Claim, queued::Queued};

/// Among so few commands, a search takes no longer than an index.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// `None` where a command was withdrawn. The first is there.
    items: VecDeque<Option<Queued>>,
    /// How many are there.
    len: usize,
    /// The number of the first.
    first: usize,
    /// Made when the lane is searched and has more than a [`FEW`]. Kept until it is empty: the next search is likely to
    /// come soon.
    index: Option<Index>,
}

/// The numbers of the commands of each claim, oldest first. A claim is known by its address, which no other claim has
/// while a command of it is here.
type Index = HashMap<usize, SmallVec<[usize; 2]>>;

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn front(&self) -> Option<&Queued> {
        self.items.front().and_then(Option::as_ref)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.items.iter().flatten()
    }

    pub(super) fn push(&mut self, item: Queued) {
        if let Some(index) = &mut self.index {
            let number = self.first + self.items.len();
            index.entry(address(&item.job.claim)).or_default().push(number);
        }
        self.items.push_back(Some(item));
        self.len += 1;
    }

    /// Takes out the first.
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let item = self.items.pop_front()??;
        self.first += 1;
        self.has_gone(&item, self.first - 1);
        Some(item)
    }

    /// Whether a command of this claim is here.
    pub(super) fn has(&mut self, claim: &Arc<Claim>) -> bool {
        self.find(claim, |_| true).is_some()
    }

    /// Takes out the newest command of this claim that may go.
    pub(super) fn withdraw(
        &mut self,
        claim: &Arc<Claim>,
        may_go: impl Fn(&Queued) -> bool,
    ) -> Option<Queued> {
        let number = self.find(claim, may_go)?;
        let item = self.items.get_mut(number - self.first)?.take()?;
        self.has_gone(&item, number);
        if self.items.len() > 2 * self.len.max(FEW) {
            // Most of them were withdrawn. The index is made again when it is asked for.
            self.retain(|_| true);
        }
        Some(item)
    }

    /// Keeps the commands that are worth it.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Queued) -> bool) {
        self.items.retain(|item| item.as_ref().is_some_and(&is_kept));
        self.len = self.items.len();
        self.index = None;
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Queued> + use<> {
        std::mem::take(self).items.into_iter().flatten()
    }

    /// The number of the newest command of this claim that fits.
    fn find(&mut self, claim: &Arc<Claim>, fits: impl Fn(&Queued) -> bool) -> Option<usize> {
        if self.index.is_none() && self.items.len() > FEW {
            self.index = Some(self.indexed());
        }
        match &self.index {
            Some(index) => {
                let numbers = index.get(&address(claim))?;
                numbers.iter().rev().copied().find(|number| self.get(*number).is_some_and(&fits))
            }
            None => {
                let is_it = |item: &Option<Queued>| {
                    item.as_ref().is_some_and(|it| Arc::ptr_eq(&it.job.claim, claim) && fits(it))
                };
                self.items.iter().rposition(is_it).map(|at| self.first + at)
            }
        }
    }

    fn get(&self, number: usize) -> Option<&Queued> {
        self.items.get(number.checked_sub(self.first)?)?.as_ref()
    }

    fn indexed(&self) -> Index {
        let mut index = Index::new();
        for (number, item) in (self.first..).zip(&self.items) {
            if let Some(item) = item {
                index.entry(address(&item.job.claim)).or_default().push(number);
            }
        }
        index
    }

    /// Notes that the command with this number was taken out.
    fn has_gone(&mut self, item: &Queued, number: usize) {
        self.len -= 1;
        while let Some(None) = self.items.front() {
            self.items.pop_front();
            self.first += 1;
        }
        if self.items.is_empty() {
            self.index = None;
        }
        let Some(index) = &mut self.index else { return };
        let address = address(&item.job.claim);
        if let Some(numbers) = index.get_mut(&address) {
            numbers.retain(|it| *it != number);
            if numbers.is_empty() {
                index.remove(&address);
            }
        }
    }
}

fn address(claim: &Arc<Claim>) -> usize {
    Arc::as_ptr(claim).addr()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        clock::Moment,
        node::{Action, Job},
    };

    /// What is done with a lane; the number is that of a claim.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push(usize),
        Pop,
        Withdraw(usize),
        /// Only the older of two may go.
        WithdrawOlder(usize),
        Has(usize),
        KeepOthers(usize),
    }

    const CLAIMS: usize = 150;

    fn step() -> impl Strategy<Value = Step> {
        let claim = || 0..CLAIMS;
        prop_oneof![
            40 => claim().prop_map(Step::Push),
            8 => Just(Step::Pop),
            20 => claim().prop_map(Step::Withdraw),
            8 => claim().prop_map(Step::WithdrawOlder),
            8 => claim().prop_map(Step::Has),
            1 => claim().prop_map(Step::KeepOthers),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

        #[test]
        fn a_lane_is_a_list_in_order_however_it_is_searched(steps in vec(step(), 1..800)) {
            let claims: Vec<_> = (0..CLAIMS)
                .map(|it| Arc::new(Claim::new(&it.to_string().into(), String::new())))
                .collect();
            let (mut lane, mut list) = (Lane::default(), Vec::<(usize, Arc<Job>)>::new());
            let job = |item: Option<Queued>| item.map(|it| Arc::as_ptr(&it.job));
            for step in steps {
                match step {
                    Step::Push(claim) => {
                        let job = Job::new(&claims[claim], Action::Watch);
                        list.push((claim, Arc::clone(&job)));
                        lane.push(Queued { job, reply_to: None, queued: Moment::ORIGIN });
                    }
                    Step::Pop => {
                        let first = (!list.is_empty()).then(|| Arc::as_ptr(&list.remove(0).1));
                        prop_assert_eq!(job(lane.pop()), first);
                    }
                    Step::Withdraw(claim) => {
                        let newest = list.iter().rposition(|(it, _)| *it == claim);
                        let newest = newest.map(|at| Arc::as_ptr(&list.remove(at).1));
                        prop_assert_eq!(job(lane.withdraw(&claims[claim], |_| true)), newest);
                    }
                    Step::WithdrawOlder(claim) => {
                        let of_claim: Vec<_> = (0..list.len()).filter(|at| list[*at].0 == claim).collect();
                        let newest = of_claim.last().map(|at| Arc::clone(&list[*at].1));
                        let older = of_claim.iter().rev().nth(1).map(|at| Arc::as_ptr(&list.remove(*at).1));
                        let may_go = |it: &Queued| newest.as_ref().is_none_or(|newest| !Arc::ptr_eq(&it.job, newest));
                        prop_assert_eq!(job(lane.withdraw(&claims[claim], may_go)), older);
                    }
                    Step::Has(claim) => {
                        let is_there = list.iter().any(|(it, _)| *it == claim);
                        prop_assert_eq!(lane.has(&claims[claim]), is_there);
                    }
                    Step::KeepOthers(claim) => {
                        list.retain(|(it, _)| *it != claim);
                        lane.retain(|it| !Arc::ptr_eq(&it.job.claim, &claims[claim]));
                    }
                }
                prop_assert_eq!((lane.len(), lane.is_empty()), (list.len(), list.is_empty()));
                prop_assert_eq!(lane.front().map(|it| &*it.job as *const _), list.first().map(|it| Arc::as_ptr(&it.1)));
                // Rule 18: what was withdrawn takes no room for long.
                prop_assert!(lane.items.len() <= 2 * list.len().max(FEW) + 1);
            }
            let left: Vec<_> = lane.take_all().map(|it| Arc::as_ptr(&it.job)).collect();
            prop_assert_eq!(left, list.iter().map(|(_, job)| Arc::as_ptr(job)).collect::<Vec<_>>());
            prop_assert!(lane.is_empty());
        }
    }

    /// A command of an address that was used before must not be taken for that of the claim which had it.
    #[test]
    fn the_index_ends_with_its_commands() {
        let mut lane = Lane::default();
        let claims: Vec<_> = (0..=FEW)
            .map(|it| Arc::new(Claim::new(&it.to_string().into(), String::new())))
            .collect();
        for claim in &claims {
            let job = Job::new(claim, Action::Watch);
            lane.push(Queued { job, reply_to: None, queued: Moment::ORIGIN });
        }
        assert!(lane.has(&claims[FEW]) && lane.index.is_some());
        assert!(lane.withdraw(&claims[FEW], |_| true).is_some());
        assert!(!lane.has(&claims[FEW]));
        assert_eq!(lane.index.as_ref().map(HashMap::len), Some(FEW));
        while lane.pop().is_some() {}
        assert!(lane.index.is_none());
    }
}
