//! The holds that clients rely on, and which of them exclude each other.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::Relaxed},
};

use redlock_core::{LockHandle, seam::simulation::believes};

use super::{plan::Mode, process::Process};

/// A client has a lock and has not begun to let it go.
#[derive(Debug)]
pub(super) struct Belief {
    pub(super) basis: Basis,
    /// The belief of the outermost body of its hold: its own, unless the body runs inside of another.
    root: u64,
    pub(super) claim: u64,
}

/// What a client relies on.
#[derive(Debug)]
pub(super) struct Basis {
    pub(super) client: usize,
    /// Several for a set.
    pub(super) keys: Vec<usize>,
    pub(super) mode: Mode,
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
        !self.basis.process.frozen.load(Relaxed) && believes(&self.basis.handle)
    }

    /// Whether this is another hold of the same key.
    fn rivals(&self, other: &Self) -> bool {
        self.root != other.root && other.basis.keys.iter().any(|key| self.basis.keys.contains(key))
    }

    /// The one of these holders of the same key that excludes it.
    fn excluded_by(&self, others: &[(u64, &Self)]) -> Option<u64> {
        let excludes = |(_, other): &&(u64, &Self)| match self.basis.mode {
            Mode::Writer => true,
            Mode::Reader => other.basis.mode != Mode::Reader,
            Mode::Permit(count) => others.len() >= usize::try_from(count).unwrap_or(usize::MAX),
        };
        others.iter().rev().find(excludes).map(|(id, _)| *id)
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
    /// A client relies on a lock from now on. For a body inside of another body, `root` is the belief of
    /// the outer body.
    pub(super) fn add(&mut self, basis: Basis, root: Option<u64>, claim: u64) -> u64 {
        self.last += 1;
        self.by_id.insert(self.last, Belief { basis, root: root.unwrap_or(self.last), claim });
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
        let mut holders: BTreeMap<usize, Vec<(u64, &Belief)>> = BTreeMap::new();
        for (id, belief) in &*by_id {
            let has_rivals = by_id.values().any(|other| belief.rivals(other));
            if !has_rivals || is_excused(belief.claim) || !belief.is_relied_on() {
                continue;
            }
            for key in &belief.basis.keys {
                let others = holders.entry(*key).or_default();
                if others.iter().any(|(_, other)| other.root == belief.root) {
                    continue;
                }
                let excluded = belief.excluded_by(others);
                others.push((*id, belief));
                let Some(other) = excluded.filter(|other| !told.contains(&(*other, *id))) else {
                    continue;
                };
                told.push((other, *id));
                found.extend(by_id.get(&other).map(|first| {
                    let name =
                        |it: &Belief| format!("c{} (#{:04x})", it.basis.client, it.claim >> 48);
                    let mode = belief.basis.mode;
                    format!("two rely on k{key}: {} and {}, a {mode:?}", name(first), name(belief))
                }));
            }
        }
        found
    }
}
