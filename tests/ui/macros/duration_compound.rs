use redlock_core::{LockError, redlock};

#[redlock(resource = "a", max_hold = "1h30m")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
