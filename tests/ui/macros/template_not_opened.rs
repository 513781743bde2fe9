use redlock_core::{LockError, redlock};

#[redlock(resource = "order:id}")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
