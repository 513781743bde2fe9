//! skeleton
use crate::{LockError, Redlock};
use std::time::Duration;
/// .
pub fn install(name: impl Into<String>, redlock: Redlock) -> Result<(), LockError> {
    todo!()
}
/// .
pub fn replace(name: impl Into<String>, redlock: Redlock) -> Option<Redlock> {
    todo!()
}
/// .
pub fn remove(name: &str) -> Option<Redlock> {
    todo!()
}
/// .
pub fn get(name: &str) -> Option<Redlock> {
    todo!()
}
/// Like `get`; the error says which pools there are.
pub(crate) fn require(name: &str) -> Result<Redlock, LockError> {
    todo!()
}
/// .
pub fn quorum_of<I>(names: I) -> Result<Redlock, LockError>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    todo!()
}
/// .
pub async fn shutdown(grace: Duration) {
    todo!()
}
