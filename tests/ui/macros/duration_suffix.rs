use redlock_core::{LockError, redlock};

#[redlock(resource = "a", ttl = 5000i32)]
async fn signed(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", wait = 5_000usize)]
async fn size(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", max_hold = 5000u128)]
async fn wide(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", min_hold = 5sec)]
async fn another_word(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
