use redlock_core::{LockError, redlock};

#[redlock(resource = "a", retry_count = "5")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", retry_count = -1)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", retry_count = 5000000000)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
