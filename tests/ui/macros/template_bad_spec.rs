use redlock_core::{LockError, redlock};

#[redlock(resource = "{id:q}")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
