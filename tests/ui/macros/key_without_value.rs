use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", wait =,)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
