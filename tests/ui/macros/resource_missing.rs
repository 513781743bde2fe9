use redlock_core::{LockError, redlock};

#[redlock(ttl = "30s")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
