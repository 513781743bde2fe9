use redlock_core::{LockError, redlock};

#[redlock(resource = "order:{id +}")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{id, id}")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
