use redlock_core::{LockError, redlock};

#[redlock(resource = "a", lock = mut guard)]
async fn mutable(id: u64) -> Result<(), LockError> {
    guard.lost().await;
    Ok(())
}

#[redlock(resource = "a", lock = guard: LockHandle)]
async fn with_a_type(id: u64) -> Result<(), LockError> {
    guard.lost().await;
    Ok(())
}

#[redlock(lock = guard: redlock_core::LockHandle, resource = "a")]
async fn with_a_path(id: u64) -> Result<(), LockError> {
    guard.lost().await;
    Ok(())
}

fn main() {}
