use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = "3 weeks")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
