use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = "366d")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", min_hold = "366d")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", ttl = 31536000001)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
