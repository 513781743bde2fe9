//! What the ledger notes of what goes over the network.

use std::time::Duration;

use redlock_core::seam::simulation::{Kind, Outcome};

use super::{
    super::{
        network::{Act, Witness},
        report::Oddity,
    },
    Doomed, Ledger,
};

impl Witness for Ledger {
    fn sent(&self, act: &Act<'_>) {
        let problem = {
            let mut inner = self.lock();
            *inner.sent.entry(act.client).or_default() += 1;
            inner.claims.sent(act, self.log.now())
        };
        self.note(act, 1, || "sends".to_owned());
        if let Some(problem) = problem {
            self.log.violation(problem);
        }
    }

    fn cut_short(&self, client: usize, node: usize) {
        let text = || "breaks in the middle of a write".to_owned();
        self.log.note([10, client as u64, node as u64], || format!("c{client}-n{node}"), text);
        self.log.odd(Oddity::CutShort);
    }

    fn executed(&self, act: &Act<'_>, outcome: Outcome) {
        {
            let mut inner = self.lock();
            inner.claims.executed(act, outcome, self.log.now());
            if act.kind == Kind::Join {
                inner.joined_again.insert(act.client);
            }
        }
        self.log.count(|stats| stats.commands += 1);
        self.note(act, 2 + outcome as u64, || format!("runs, {outcome:?}:"));
    }

    fn shown(&self, act: &Act<'_>, writer: Option<u64>, left: Option<Duration>) {
        self.saw(act, writer, left);
    }

    fn taken(&self, act: &Act<'_>, from: &[u64]) {
        self.takes(act, from);
    }

    fn pushed(&self, client: usize, node: usize, key: &str) {
        let gives_turn = key.contains(":turn:");
        let data = [7, client as u64, node as u64, u64::from(gives_turn)];
        let text = || {
            let what = if gives_turn {
                "its turn"
            } else if key.contains(":next:") {
                "that it is next"
            } else if key.contains(":near:") {
                "that it is near"
            } else {
                key
            };
            format!("is told {what}")
        };
        self.log.note(data, || format!("c{client}<n{node}"), text);
        if !gives_turn {
            return;
        }
        let mut inner = self.lock();
        *inner.turns.entry(client).or_default() += 1;
        inner.joined_again.remove(&client);
        if let Some((stops, span)) = inner.front.take() {
            inner.doomed.push(Doomed { client, stops, span });
            self.doom.notify_one();
        }
    }

    fn answered(&self, client: usize, node: usize) {
        let text = || "hears".to_owned();
        self.log.note([8, client as u64, node as u64], || format!("c{client}<n{node}"), text);
        self.look();
    }

    fn connected(&self, client: usize, node: usize) {
        let text = || "connected".to_owned();
        self.log.note([9, client as u64, node as u64], || format!("c{client}-n{node}"), text);
    }
}

impl Ledger {
    fn note(&self, act: &Act<'_>, what: u64, verb: impl Fn() -> String) {
        let Act { client, node, connection, kind, key, claim, ttl, .. } = *act;
        let data = [what, client as u64, node as u64, connection, kind as u64, claim];
        self.log.note(
            data,
            || if what == 1 { format!("c{client}>n{node}") } else { format!("n{node}<c{client}") },
            || format!("{} {kind:?} {key} #{:04x} {ttl:?} @{connection}", verb(), claim >> 48),
        );
    }
}
