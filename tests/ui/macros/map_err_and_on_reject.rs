use redlock_core::{LockError, redlock};

#[redlock(resource = "a", map_err = |error| error, on_reject = |error| Err(error))]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
