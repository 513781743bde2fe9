use redlock_core::{LockError, redlock};

#[redlock(resource = "a", skip_if_held = true)]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
