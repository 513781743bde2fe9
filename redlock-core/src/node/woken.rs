//! The waiters that a node has given their turns.

use std::sync::Arc;

use super::{Claim, Secret};

/// The waiters that were given their turns before the keys of a claim, by the places of these keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Woken(Vec<(usize, Secret)>);

impl Woken {
    /// The waiter before the only key of a claim.
    pub(crate) fn one(waiter: Secret) -> Self {
        Self(vec![(0, waiter)])
    }

    #[cfg(test)]
    pub(crate) fn named(waiters: &[(usize, &str)]) -> Self {
        Self(waiters.iter().map(|(place, name)| (*place, Secret((*name).to_owned()))).collect())
    }

    /// Adds the waiter of a claim on one key, which is at this place of a set.
    pub(crate) fn add(&mut self, place: usize, one: &Self) {
        self.0.extend(one.0.iter().map(|(_, waiter)| (place, waiter.clone())));
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a waiter was given its turn before the key at this place.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.0.iter().any(|(it, _)| *it == place)
    }

    /// The key before which each of them waited, and the name of the waiter.
    pub(crate) fn before<'a>(
        &'a self,
        claim: &'a Claim,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a str)> {
        self.0.iter().filter_map(|(place, waiter)| Some((claim.keys().nth(*place)?, &*waiter.0)))
    }
}
