use redlock_core::{LockError, redlock};

#[redlock(resource = "a", permits = 0)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = 1025)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = -1)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = "3")]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = 5000000000)]
async fn locked_5(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
