//! What the tasks of a client ask for.

use super::{
    super::{
        network::{Cut, Manners},
        plan::{Cancel, End, How, Mode, Op, Settings, Step, Take, What},
    },
    Artist, SLEEP, pick,
};

impl Artist<'_> {
    /// More attempts at once than may be in flight, given up while most are unsent.
    pub(super) fn burst(&mut self) -> Op {
        let cancel = match self.rng.below(3) {
            0 => Cancel::Polls(1 + u32::try_from(self.rng.below(3)).unwrap()),
            1 => Cancel::Woken(u32::try_from(self.rng.below(3)).unwrap()),
            _ => Cancel::After(self.rng.below(2 * self.settings.node_timeout)),
        };
        let count = 500 + self.rng.index(400);
        Op { after: self.rng.below(self.ttls[0]), what: What::Burst { count, cancel } }
    }

    pub(super) fn op(&mut self, manners: Manners) -> Op {
        let timeout = self.settings.node_timeout;
        let after = match self.rng.below(10) {
            0..4 => 0,
            4..8 => self.rng.below(timeout),
            _ => self.rng.below(self.ttls[0]),
        };
        let what = match self.rng.below(100) {
            0..2 => What::ReleaseAll,
            2..4 => What::Health,
            _ if self.crowd => What::Take(self.take_in_crowd(manners)),
            _ => What::Take(self.take(manners)),
        };
        Op { after, what }
    }

    /// A lock for which many clients wait, mostly held for a short time.
    pub(super) fn take_in_crowd(&mut self, manners: Manners) -> Take {
        let how = pick(self.rng, &[(80, How::Lock), (6, How::Try), (14, How::Run)]);
        let brief = Step::Sleep(self.rng.below(6));
        let take = self.take(manners);
        let seldom = self.rng.percent(10);
        Take {
            key: if take.also.is_empty() && self.rng.percent(90) { 0 } else { take.key },
            how,
            wait: if take.sleeps || self.rng.percent(20) { take.wait } else { 30_000 },
            retry_count: take.retry_count.filter(|_| seldom),
            min_hold: if seldom { take.min_hold } else { 0 },
            auto_extend: take.auto_extend || !seldom,
            steps: if seldom { take.steps } else { vec![brief] },
            end: if seldom || matches!(take.end, End::Release | End::Drop) {
                take.end
            } else {
                End::Drop
            },
            ..take
        }
    }

    pub(super) fn take(&mut self, manners: Manners) -> Take {
        let Settings { retry_delay, max_ttl, .. } = self.settings;
        let ttl = pick(self.rng, &[(4, self.ttls[0]), (3, self.ttls[1]), (3, self.ttls[2])]);
        let how = pick(
            self.rng,
            &[
                (44, How::Lock),
                (15, How::Try),
                (20, How::Snipe),
                (17, How::Run),
                (4, How::Continue),
            ],
        );
        let wait = pick(
            self.rng,
            &[(2, 0), (2, retry_delay), (3, 5 * retry_delay), (2, ttl.min(30 * retry_delay))],
        );
        let sleeps = how == How::Lock && manners == Manners::FULL && self.rng.percent(4);
        let cancel = match self.rng.below(20) {
            0 => Some(Cancel::Polls(u32::try_from(self.rng.below(8)).unwrap())),
            1 => Some(Cancel::After(self.rng.below(2 * self.settings.node_timeout))),
            2 => Some(Cancel::After(self.rng.below(ttl))),
            3 => Some(Cancel::Woken(u32::try_from(self.rng.below(4)).unwrap())),
            _ => None,
        };
        let key = self.rng.index(self.keys);
        let also = if how == How::Snipe { Vec::new() } else { self.also(key) };
        let (steps, end, auto_extend) = self.holding(ttl);
        Take {
            key,
            also,
            how,
            mode: Mode::Writer,
            ttl,
            wait: if sleeps { SLEEP } else { wait },
            sleeps,
            retry_count: (!sleeps && self.rng.percent(10))
                .then(|| u32::try_from(self.rng.below(4)).unwrap()),
            auto_extend,
            drift: self.rng.percent(8).then_some(3.0),
            min_hold: if self.rng.percent(4) { self.rng.below(max_ttl) } else { 0 },
            max_hold: self.rng.percent(4).then(|| ttl + self.rng.below(ttl)),
            cancel,
            steps,
            end,
            stops: None,
            overtaken: false,
            fenced: false,
            keep_handle: self.rng.percent(20),
            inside: Vec::new(),
        }
    }

    /// The other keys of a set, if the request is for a set.
    fn also(&mut self, key: usize) -> Vec<usize> {
        if !self.rng.percent(20) {
            return Vec::new();
        }
        let mut also: Vec<usize> =
            (0..1 + self.rng.below(2)).map(|_| self.rng.index(self.keys)).collect();
        also.retain(|other| *other != key);
        also.dedup();
        also
    }

    /// A lock that changes hands while its holder is cut off and has asked for more.
    pub(super) fn baton(&mut self) -> [Op; 2] {
        let [ttl, .., longest] = self.ttls;
        let cut_off = Step::Isolate {
            cut: pick(self.rng, &[(1, Cut::Both), (1, Cut::ToNode)]),
            first: 0,
            count: self.nodes,
            span: ttl + self.rng.below(2 * ttl),
        };
        let take = Take {
            key: 0,
            also: Vec::new(),
            cancel: None,
            retry_count: None,
            min_hold: 0,
            sleeps: false,
            ..self.take(Manners::FULL)
        };
        let first = Take {
            how: How::Lock,
            ttl,
            wait: longest,
            auto_extend: true,
            max_hold: None,
            steps: vec![Step::Sleep(2), cut_off, Step::SendExtend(longest)],
            end: End::Drop,
            ..take.clone()
        };
        let next = Take {
            ttl: longest,
            steps: Vec::new(),
            end: End::UntilLost(2 * longest),
            ..first.clone()
        };
        let after = self.rng.below(self.settings.node_timeout);
        [Op { after, what: What::Take(first) }, Op { after: after + 1, what: What::Take(next) }]
    }
}
