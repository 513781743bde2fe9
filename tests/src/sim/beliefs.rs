//! The holds that clients rely on, and which of them exclude each other.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::Relaxed},
};

use redlock_core::{LockHandle, seam::simulation::believes};

use super::process::Process;

/// A client has a lock and has not begun to let it go.
#[derive(Debug)]
pub(super) struct Belief {
    pub(super) client: usize,
    /// Several for a set.
    pub(super) keys: Vec<usize>,
    /// The belief of the outermost body of its hold: its own, unless the body runs inside of another.
    pub(super) root: u64,
    pub(super) claim: u64,
    pub(super) body: bool,
    pub(super) handle: LockHandle,
    pub(super) process: Frozen,
}

/// A process whose clock stands still does nothing, and so relies on nothing.
#[derive(Debug, Clone)]
pub(super) struct Frozen {
    pub(super) process: Process,
    pub(super) frozen: Arc<AtomicBool>,
}

impl Belief {
    /// Whether the client relies on its lock now.
    pub(super) fn is_relied_on(&self) -> bool {
        !self.process.frozen.load(Relaxed) && believes(&self.handle)
    }

    /// Whether this is another hold of the same key.
    fn rivals(&self, other: &Self) -> bool {
        self.root != other.root && other.keys.iter().any(|key| self.keys.contains(key))
    }
}

/// All beliefs of one schedule, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Beliefs {
    by_id: BTreeMap<u64, Belief>,
    last: u64,
    /// Pairs of holds that overlap. Each is reported once.
    told: Vec<(u64, u64)>,
}

impl Beliefs {
    /// A client relies on a lock from now on.
    pub(super) fn add(&mut self, make: impl FnOnce(u64) -> Belief) -> u64 {
        self.last += 1;
        self.by_id.insert(self.last, make(self.last));
        self.last
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Belief> {
        self.by_id.remove(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Belief)> {
        self.by_id.iter().map(|(id, belief)| (*id, belief))
    }

    /// Holds that are relied on at once and exclude each other, unless a claim `is_excused`. Each pair is
    /// told once.
    pub(super) fn overlaps(&mut self, mut is_excused: impl FnMut(u64) -> bool) -> Vec<String> {
        let Self { by_id, told, .. } = self;
        let mut found = Vec::new();
        if by_id.len() < 2 {
            return found;
        }
        let mut holders: BTreeMap<usize, u64> = BTreeMap::new();
        for (id, belief) in &*by_id {
            let has_rivals = by_id.values().any(|other| belief.rivals(other));
            if !has_rivals || is_excused(belief.claim) || !belief.is_relied_on() {
                continue;
            }
            for key in &belief.keys {
                let Some(other) = holders.insert(*key, *id) else { continue };
                let Some(first) = by_id.get(&other).filter(|first| first.rivals(belief)) else {
                    continue;
                };
                if told.contains(&(other, *id)) {
                    continue;
                }
                told.push((other, *id));
                found.push(format!(
                    "two rely on k{key}: c{} (#{:04x}) and c{} (#{:04x})",
                    first.client,
                    first.claim >> 48,
                    belief.client,
                    belief.claim >> 48,
                ));
            }
        }
        found
    }
}
