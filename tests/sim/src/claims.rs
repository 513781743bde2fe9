//! Which commands may be sent, and when: the rules that show in the order of single commands.

mod claim;

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::seam::simulation::{Kind, Outcome};

use super::network::Act;
pub(super) use claim::{Claim, Quiet};

/// What is known of the claims of one schedule.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<u64, Claim>,
    /// The node on which a client has joined the queue of a key last.
    queue_nodes: BTreeMap<usize, usize>,
    /// Clients that know a node under two names.
    twins: BTreeSet<usize>,
    /// Which client has asked to adopt which key.
    adopts: BTreeSet<(usize, String)>,
    /// How many nodes are a quorum.
    quorum: u32,
}

/// The number of a key. All permits of a key have its number.
pub(super) fn key_number(key: &str) -> usize {
    let digits: String = key.chars().skip(1).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

impl Claims {
    pub(super) fn over(nodes: usize) -> Self {
        Self { quorum: u32::try_from(nodes / 2 + 1).unwrap_or(u32::MAX), ..Self::default() }
    }

    pub(super) fn get(&mut self, claim: u64) -> Option<&mut Claim> {
        self.claims.get_mut(&claim)
    }

    /// The queue node before a key, as far as any client has joined it.
    pub(super) fn queue_node(&self, key: usize) -> usize {
        self.queue_nodes.get(&key).copied().unwrap_or_default()
    }

    /// A client knows a node under two names.
    pub(super) fn allow_twins(&mut self, client: usize) {
        self.twins.insert(client);
    }

    /// An operator deletes all keys: no claim so far is good any more.
    pub(super) fn flush(&mut self) {
        self.claims.values_mut().for_each(|claim| claim.flushed |= claim.taken != 0);
    }

    /// A lock that was lost on a node is there again. It stays until its ttl.
    pub(super) fn is_back(&mut self, node: usize, claim: u64) {
        if let Some(claim) = self.claims.get_mut(&claim) {
            claim.ghosts |= 1 << node;
            claim.is_back(node);
        }
    }

    /// Whether all nodes had granted a claim when `min_hold` of another one, before it, cannot have been
    /// over.
    pub(super) fn overlap_of(&self, before: u64, after: u64, min_hold: u64) -> bool {
        let (Some(before), Some(after)) = (self.claims.get(&before), self.claims.get(&after))
        else {
            return false;
        };
        let over_at = before.asked_at.map(|at| at + min_hold);
        let is_excused = before.is_excused() || after.is_excused();
        !is_excused && over_at.is_some_and(|over| after.granted_at < over)
    }

    /// An operator has taken a key away from these claims on a node. They may overlap with other claims
    /// from now on, if that is what the operator has asked for.
    pub(super) fn taken(&mut self, act: &Act<'_>, from: &[u64], may_overlap: bool, now: u64) {
        let bit = 1 << act.node;
        if may_overlap && !from.is_empty() {
            // The key may have stood for a claim that it was taken away from before.
            self.claims.values_mut().for_each(|claim| claim.cleared |= claim.away & bit != 0);
        }
        for number in from.iter().filter(|number| **number != act.claim) {
            let Some(claim) = self.claims.get_mut(number) else { continue };
            claim.cleared |= may_overlap;
            claim.away |= bit;
            if claim.away.count_ones() >= self.quorum {
                claim.away_since.get_or_insert(now);
            }
        }
    }

    /// A command was sent. Returns what is wrong with it.
    pub(super) fn sent(&mut self, act: &Act<'_>, now: u64) -> Option<String> {
        if matches!(act.kind, Kind::Watch | Kind::Inspect) {
            return None;
        }
        let bit = 1 << act.node;
        let known = self.claims.contains_key(&act.claim);
        let claim = self.claims.entry(act.claim).or_default();
        if !known {
            claim.client = act.client;
        }
        let problem = match act.kind {
            _ if claim.client == act.client => None,
            // It deletes what the giver has left on nodes that missed its adoption.
            Kind::Release
                if claim.left && self.adopts.contains(&(act.client, act.key.to_owned())) =>
            {
                claim.deleted_by = Some(act.client);
                None
            }
            _ => Some("the token of another client (rule 1)"),
        };
        let problem = problem.or_else(|| match act.kind {
            // Both names are asked until both have told which process they lead to.
            Kind::Grant | Kind::Adopt
                if claim.granted & bit != 0 && !self.twins.contains(&act.client) =>
            {
                Some("a token used twice (rule 1)")
            }
            // The release does not go to a name under which nothing was set. These commands set
            // nothing either: there they find the key gone, or extend what the release deletes.
            Kind::Extend | Kind::Redraw | Kind::Confirm if self.twins.contains(&act.client) => None,
            Kind::Grant
            | Kind::Adopt
            | Kind::Heal
            | Kind::Extend
            | Kind::Redraw
            | Kind::Confirm
                // Under two names, it has two connections, and no order between them.
                if claim.let_go & bit != 0 && !self.twins.contains(&act.client) =>
            {
                Some("sent behind the release of the same lock (rules 5 and 10)")
            }
            // The giver deletes what it may have set on nodes that had not answered.
            Kind::Release if claim.quiet.is_some() => None,
            _ if claim.quiet.as_ref().is_some_and(|it| it.is_due(now)) => Some("sent for a lock that another process has (rule 10)"),
            Kind::Join if claim.let_go & bit != 0 => {
                Some("joined a queue behind leaving it: an entry that no waiter stands for")
            }
            Kind::Release | Kind::Shorten if claim.live > 0 => {
                Some("released while a client may still rely on it (rule 13)")
            }
            _ => None,
        });
        match act.kind {
            Kind::Grant | Kind::Adopt => {
                claim.granted |= bit;
                claim.asked_at.get_or_insert(now);
                if act.kind == Kind::Adopt {
                    self.adopts.insert((act.client, act.key.to_owned()));
                }
            }
            Kind::Release | Kind::Shorten | Kind::Leave => claim.let_go |= bit,
            // It stays for what was left of the lock.
            Kind::TakeAway => claim.is_kept = true,
            Kind::Heal
            | Kind::Extend
            | Kind::Redraw
            | Kind::Confirm
            | Kind::Watch
            | Kind::Join
            | Kind::Inspect
            | Kind::Clear => {}
        }
        if act.kind != Kind::Shorten {
            claim.longest = claim.longest.max(u64::try_from(act.ttl.as_millis()).unwrap_or(0));
        }
        problem.map(|problem| {
            let Act { client, node, kind, key, claim, .. } = act;
            format!("c{client} to n{node}: {kind:?} {key} #{:04x}: {problem}", claim >> 48)
        })
    }

    /// A node has run a command.
    pub(super) fn executed(&mut self, act: &Act<'_>, outcome: Outcome, now: u64) {
        if act.kind == Kind::Join {
            self.queue_nodes.insert(key_number(act.key), act.node);
        }
        let Some(claim) = self.claims.get_mut(&act.claim) else { return };
        let bit = 1 << act.node;
        match act.kind {
            Kind::Grant | Kind::Adopt | Kind::Heal if outcome == Outcome::Done => {
                claim.is_back(act.node);
                if act.kind != Kind::Heal {
                    claim.taken |= bit;
                    claim.regranted |= claim.flushed;
                    claim.granted_at = now;
                }
                if claim.deleted[act.node] >= 2 {
                    claim.ghosts |= bit;
                }
            }
            Kind::Release => {
                claim.deleted[act.node] = claim.deleted[act.node].saturating_add(1);
                claim.ghosts &= !bit;
            }
            Kind::Shorten => {
                let rest = u64::try_from(act.ttl.as_millis()).unwrap();
                // A node's clock may be slow by half of the largest drift factor.
                claim.keep_until = claim.keep_until.max(now + rest + rest / 16 + 2);
            }
            Kind::Grant
            | Kind::Adopt
            | Kind::Heal
            | Kind::Extend
            | Kind::Redraw
            | Kind::Confirm
            | Kind::Watch
            | Kind::Join
            | Kind::Leave
            | Kind::Inspect
            | Kind::TakeAway
            | Kind::Clear => {}
        }
    }

    /// The claims that a client has deleted without having adopted them.
    pub(super) fn deleted_by_strangers(&self) -> Vec<String> {
        let strangers = self.claims.iter().filter_map(|(number, claim)| {
            let stranger = claim
                .deleted_by
                .filter(|it| claim.adopter.is_none_or(|(adopter, _)| adopter != *it))?;
            Some(format!("c{stranger} has deleted #{:04x}, which it has not adopted", number >> 48))
        });
        strangers.collect()
    }

    /// Whether the key of a claim may be on a node at `now`, while no call is under way.
    pub(super) fn excuse(
        &self,
        node: usize,
        number: u64,
        now: u64,
        crashed: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let Some(claim) = self.claims.get(&number) else {
            return Err("no client has asked for it".to_owned());
        };
        // An adopter cleans up where it was heard. It does not know each node, or one that is away.
        let was_heard = |(client, number): (usize, u64)| {
            let adopted = self.claims.get(&number);
            !crashed(client) && adopted.is_some_and(|it| it.granted & (1 << node) != 0)
        };
        let is_left = claim.left && !claim.adopter.is_some_and(was_heard);
        if is_left
            || claim.is_kept
            || crashed(claim.client)
            || claim.ghosts & (1 << node) != 0
            || now <= claim.keep_until
        {
            return Ok(());
        }
        Err(format!("#{:04x} of c{}, which is alive", number >> 48, claim.client))
    }
}
