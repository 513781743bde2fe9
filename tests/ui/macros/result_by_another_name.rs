use redlock_core::{LockError, redlock};
use std::pin::Pin;

type AppResult<T> = Result<T, LockError>;
type ResultFuture<T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send>>;

#[redlock(resource = "a")]
async fn locked(id: u64) -> AppResult<u64> {
    Ok(id)
}

#[redlock(resource = "a", map_err = |error| error)]
async fn mapped(id: u64) -> AppResult<u64> {
    Ok(id)
}

#[redlock(resource = "a")]
fn in_a_future(id: u64) -> ResultFuture<u64> {
    Box::pin(async move { Ok(id) })
}

fn main() {}
