use redlock_core::{LockError, redlock};

#[redlock(resource = "a", fenced, shared)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", shared, fenced)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", fenced, permits = 3)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = id as u32, fenced)]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", shared, permits = 3)]
async fn locked_5(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", permits = 3, fenced, shared)]
async fn locked_6(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", skip_if_held, fenced, shared)]
async fn locked_7(id: u64) {}

fn main() {}
