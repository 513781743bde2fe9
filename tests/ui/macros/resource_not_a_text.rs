use redlock_core::{LockError, redlock};

#[redlock(resource = 42)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = [id, id])]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = id)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = Some("a"))]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
