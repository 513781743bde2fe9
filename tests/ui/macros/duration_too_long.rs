use redlock_core::{LockError, redlock};

#[redlock(resource = "a", max_hold = "99999999999999999d")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
