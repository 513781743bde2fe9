use redlock_core::{LockError, redlock};

#[redlock(resource = "a", lock = "guard")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", lock = _)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", lock = self)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", lock = crate)]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", lock = None)]
async fn locked_5(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
