use redlock_core::{LockError, redlock};

#[redlock(resource = "a", crate = "redlock_core")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
