use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = 0)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", max_hold = "0s")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
