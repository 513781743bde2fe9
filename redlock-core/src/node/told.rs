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

    /// The keys on which pushes would have said the same. The waiter of the claim is left out: a node that forgot the
    /// permits has each waiter give the turn to itself, and none would pause.
    pub(crate) fn keys<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = String> + 'a {
        let is_own = |word: &Secret| word.0.split_once(':').is_some_and(|it| it.1 == claim.value);
        let others = self.0.iter().filter(move |(_, word)| !is_own(word));
        others.filter_map(|(place, word)| {
            Some(format!("{}:{}", queue_keys::prefix(claim.keys().nth(*place)?), word.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waiters_are_told_comes_as_the_keys_of_their_queues() {
        let rest = ["b".into()].into();
        let claim = Claim { rest, ..Claim::new(&"a".into(), "value".to_owned()) };
        let told = Told::named(&[(0, "turn:one"), (0, "next:two"), (1, "turn:three")]);
        let keys: Vec<_> = told.keys(&claim).collect();
        assert_eq!(keys, ["a:{a}:turn:one", "a:{a}:next:two", "b:{b}:turn:three"]);
        assert!(told.gives_turn(0) && told.gives_turn(1) && !told.gives_turn(2));
        assert!(!Told::named(&[(0, "next:turn:")]).gives_turn(0));
    }

    #[test]
    fn a_waiter_is_told_nothing_by_its_own_question() {
        let claim = Claim::new(&"a".into(), "own".to_owned());
        let told = Told::named(&[(0, "turn:own"), (0, "next:other")]);
        assert_eq!(told.keys(&claim).collect::<Vec<_>>(), ["a:{a}:next:other"]);
    }
}
