//! Logins and certificates that the application may change while locks are held.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};

use crate::error::MAX_REASON;

/// The error of an application's own code.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A user and a password, as [`Node::credentials`](crate::Node::credentials) gives them.
///
/// ```
/// use redlock_core::Credentials;
///
/// let credentials = Credentials::new("app", "s3cret");
/// assert!(!format!("{credentials:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Credentials {
    /// This user with this password. With an empty user, only the password is sent, as servers
    /// before Redis 6 need it.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    /// Never prints the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

type Ask<T> = dyn Fn() -> BoxFuture<'static, Result<T, BoxError>> + Send + Sync;

/// Code of the application that is asked for a value each time the value is needed.
pub(crate) struct Provider<T>(Arc<Ask<T>>);

impl<T: 'static> Provider<T> {
    pub(crate) fn new<F, Fut>(provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, BoxError>> + Send + 'static,
    {
        Self(Arc::new(move || provider().boxed()))
    }

    /// Asks for the value, for a connection that has this `limit` to open. The error says what failed, in one line.
    /// A provider that panics ends neither the task of its node nor the client.
    pub(crate) async fn ask(&self, what: &str, limit: Duration) -> Result<T, String> {
        // The connection cannot open in time after that, and would not say what it waited for.
        let limit = limit / 10 * 9;
        let asked = AssertUnwindSafe(async {
            // The error is a type of the caller, and may panic as it is displayed.
            (self.0)().await.map_err(|error| one_line(&error.to_string()))
        })
        .catch_unwind();
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(format!("{what} failed: {error}")),
            Ok(Err(_)) => Err(format!("{what} panicked")),
            Err(_) => Err(format!("{what} has not answered within {limit:?}")),
        }
    }
}

fn one_line(text: &str) -> String {
    let visible = |it: char| if it.is_control() { ' ' } else { it };
    text.chars().map(visible).take(MAX_REASON).collect()
}

impl<T> Clone for Provider<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error, fmt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[derive(Debug)]
    struct Undisplayable;

    impl fmt::Display for Undisplayable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("as it is displayed")
        }
    }

    impl Error for Undisplayable {}

    #[tokio::test]
    async fn a_provider_that_fails_or_panics_is_told_in_one_line() {
        let failing = Provider::<()>::new(|| async { Err("no\nvault".into()) });
        let asked = failing.ask("the provider", LIMIT).await;
        assert_eq!(asked, Err("the provider failed: no vault".into()));
        let undisplayable = Provider::<()>::new(|| async { Err(Undisplayable.into()) });
        let asked = undisplayable.ask("the provider", LIMIT).await;
        assert_eq!(asked, Err("the provider panicked".into()));
        let panicking = Provider::<()>::new(|| async { panic!("at work") });
        let asked = panicking.ask("the provider", LIMIT).await;
        assert_eq!(asked, Err("the provider panicked".into()));
        #[allow(unreachable_code)]
        let at_once = Provider::<()>::new(|| {
            panic!("before its work");
            async { Ok(()) }
        });
        assert_eq!(at_once.ask("the provider", LIMIT).await, Err("the provider panicked".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_is_late_is_named() {
        let hung = Provider::<()>::new(std::future::pending);
        let asked = tokio::time::timeout(LIMIT, hung.ask("the provider", LIMIT)).await;
        assert_eq!(asked, Ok(Err("the provider has not answered within 900ms".into())));
    }
}
