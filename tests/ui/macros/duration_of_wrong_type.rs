use redlock_core::{LockError, redlock};

const TTL: u64 = 30_000;

#[redlock(resource = "a", ttl = TTL)]
async fn constant(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", wait = id)]
async fn argument(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", max_hold = 2 * 60_000)]
async fn sum(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
