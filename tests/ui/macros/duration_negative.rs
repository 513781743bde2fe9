use redlock_core::{LockError, redlock};

#[redlock(resource = "a", retry_delay = -50)]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
