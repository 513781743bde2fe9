use redlock_core::{LockError, redlock};

type AppResult<T> = Result<T, LockError>;

#[redlock(resource = "a")]
async fn locked(id: u64) -> AppResult<u64> {
    Ok(id)
}

#[redlock(resource = "a", map_err = |error| error)]
async fn mapped(id: u64) -> AppResult<u64> {
    Ok(id)
}

fn main() {}
