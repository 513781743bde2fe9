//! What goes wrong.

use super::{
    super::{
        network::{Cut, LinkQuality},
        plan::{Blow, Fault, Planned, Settings},
    },
    Artist, pick,
};

impl Artist<'_> {
    pub(super) fn quality(&mut self, client: usize, node: usize) -> LinkQuality {
        let timeout = self.settings.node_timeout;
        let distance = self.distances.between(client, node);
        let Self { lost_pushes, calm, .. } = *self;
        let lost_pushes = if calm { 0 } else { lost_pushes };
        let fair = LinkQuality { base: distance, lost_pushes, ..LinkQuality::FAIR };
        let mild = LinkQuality { base: distance + self.rng.below(3), jitter: timeout / 10, ..fair };
        let rough = LinkQuality {
            base: distance + self.rng.below(timeout / 4),
            jitter: timeout / 4,
            spikes: 20,
            spike: 4 * timeout,
            losses: 5,
            lost_pushes,
        };
        let weathers = if self.calm {
            [(1, mild), (2, fair), (0, rough)]
        } else {
            [(4, mild), (3, fair), (2, rough)]
        };
        pick(self.rng, &weathers)
    }

    pub(super) fn cut(&mut self) -> Cut {
        pick(self.rng, &[(2, Cut::Both), (1, Cut::ToNode), (2, Cut::ToClient)])
    }

    pub(super) fn faults(&mut self) -> Vec<Planned> {
        if self.calm {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for _ in 0..pick(self.rng, &[(3, 0), (3, 2), (3, 4), (2, 7)]) {
            let fault = self.fault();
            faults.push(self.planned(fault));
        }
        if self.flush {
            let flush = self.planned(Fault::Flush);
            faults.push(flush);
        }
        faults
    }

    pub(super) fn planned(&mut self, fault: Fault) -> Planned {
        let Settings { node_timeout, max_ttl, .. } = self.settings;
        let span = pick(
            self.rng,
            &[(3, 3 * node_timeout), (3, self.ttls[0]), (2, self.ttls[1]), (1, max_ttl)],
        );
        Planned {
            operation: self.rng.below(self.operations() * self.clients as u64),
            after: if self.rng.percent(50) { 0 } else { self.rng.below(self.ttls[0]) },
            span: 1 + self.rng.below(2 * span),
            fault,
        }
    }

    pub(super) fn fault(&mut self) -> Fault {
        let (client, node) = (self.rng.index(self.clients + 4), self.rng.index(self.nodes));
        let count = 1 + self.rng.index(self.nodes);
        let cut = self.cut();
        let empty = self.empty && self.rng.percent(70);
        let delay = self.rng.below(3 * self.settings.node_timeout);
        let blow = pick(
            self.rng,
            &[(4, Blow::Stops { empty }), (2, Blow::Hangs), (2, Blow::IsCutOff), (2, Blow::Resets)],
        );
        let key = if self.crowd { 0 } else { self.rng.index(self.keys) };
        // In a crowd, faults of the queue matter most.
        let (queue_node, front) = if self.crowd { (60, 50) } else { (8, 6) };
        let faults = [
            (10, Fault::Link { client, node, cut }),
            (10, Fault::Partition { client, first: node, count, cut }),
            (6, Fault::Unreachable { node }),
            (8, Fault::Reset { client, node }),
            (18, Fault::Restart { node, empty }),
            (4, Fault::RollingRestart { first: node, count, empty }),
            (10, Fault::Hang { node }),
            (6, Fault::Slow { node, delay }),
            (8, Fault::Stop { client }),
            (8, Fault::Freeze { client }),
            (4, Fault::Step { client }),
            (8, Fault::Crash { client }),
            (queue_node, Fault::QueueNode { key, blow }),
            (front, Fault::Front { stops: delay.is_multiple_of(4) }),
        ];
        pick(self.rng, &faults)
    }
}
