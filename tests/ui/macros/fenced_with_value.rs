use redlock_core::{LockError, redlock};

#[redlock(resource = "a", fenced = true)]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
