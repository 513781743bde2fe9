use redlock_core::{LockError, redlock};

#[redlock(resource = "a", wait = 1.5)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", wait = "1.5s")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
