use redlock_core::{LockError, redlock};

#[redlock(resource = "a", pools = "a")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
