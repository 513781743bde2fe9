use redlock_core::{LockError, redlock};

#[redlock(resource = "a", client = id)]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
