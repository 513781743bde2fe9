use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = "30s", ttl = "10s")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
