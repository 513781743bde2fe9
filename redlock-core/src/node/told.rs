//! What a command has told the waiters in the queues between clients.

use super::{Claim, Secret, queue_keys};

/// What a command has told waiters, by the places of the keys in its claim: `turn:WAITER`, `next:WAITER` or
/// `near:WAITER`. A node pushes none of this to the client of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told(Vec<(usize, Secret)>);

impl Told {
    /// What was told to the waiters before the only key of a claim.
    pub(crate) fn of(words: impl IntoIterator<Item = Secret>) -> Self {
        Self(words.into_iter().map(|word| (0, word)).collect())
    }

    #[cfg(test)]
    pub(crate) fn named(words: &[(usize, &str)]) -> Self {
        Self(words.iter().map(|(place, word)| (*place, Secret((*word).to_owned()))).collect())
    }

    /// Adds what was told before the key at this place of a set.
    pub(crate) fn add(&mut self, place: usize, one: &Self) {
        self.0.extend(one.0.iter().map(|(_, word)| (place, word.clone())));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a waiter before the key at this place was told that it has the turn.
    pub(crate) fn gives_turn(&self, place: usize) -> bool {
        self.0.iter().any(|(it, word)| *it == place && word.0.starts_with("turn:"))
    }

    /// The keys whose changes say the same.
    pub(crate) fn keys<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = String> + 'a {
        self.0.iter().filter_map(|(place, word)| {
            Some(format!("{}:{}", queue_keys::prefix(claim.keys().nth(*place)?), word.0))
        })
    }
}
