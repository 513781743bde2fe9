use redlock_core::{LockError, redlock};

#[redlock(resource = "a", clock_drift_factor = 1.0)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", clock_drift_factor = -0.01)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", clock_drift_factor = "1%")]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
