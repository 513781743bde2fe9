use redlock_core::{LockError, redlock};

#[redlock(resource = "a", map_err = "locked")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
