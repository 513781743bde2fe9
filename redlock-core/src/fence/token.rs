//! The token that a holder passes to a store.

use std::fmt;

/// A number that gives the order of the holders of one resource. No two holders have the same number, except a giver
/// and its adopter ([`LockGuard::into_lease`](crate::LockGuard::into_lease)). A later holder has a larger number, except
/// when a process passes its lock on after the validity has ended, or after its keys have vanished early.
///
/// A store that remembers the largest token it has seen refuses a smaller one, and accepts an equal
/// one. See [`fence`](crate::fence) for what is guaranteed. The number is below 2^53, so that it fits a
/// `BIGINT`, an `i64`, and a number of JSON or JavaScript.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let redlock = redlock_core::Redlock::in_memory(3);
/// let guard = redlock.lock("invoice:42").fenced().await?;
/// if let Some(token) = guard.fencing_token() {
///     let column: i64 = token.into();
///     assert_eq!(column.to_string(), token.to_string());
/// }
/// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(super) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// A token that was written down, if it can be one.
    #[cfg(feature = "serde")]
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        (1..1 << 53).contains(&number).then_some(Self(number))
    }

    /// The number. It is at least 1 and below 2^53.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_number() {
        let token = FencingToken::new((1 << 53) - 1);
        assert_eq!((u64::from(token), i64::from(token)), ((1 << 53) - 1, (1 << 53) - 1));
        assert_eq!((token.get(), token.to_string()), ((1 << 53) - 1, "9007199254740991".into()));
        assert_eq!(format!("{token:>17}"), " 9007199254740991");
        assert!(FencingToken::new(9) < FencingToken::new(10));
    }
}
