use redlock_core::{LockError, redlock};

#[redlock(resource = "a", retry_count = id)]
async fn count(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", clock_drift_factor = id)]
async fn factor(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", auto_extend = id)]
async fn toggle(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
