use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = "30")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
