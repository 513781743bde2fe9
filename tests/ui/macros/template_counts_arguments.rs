use redlock_core::{LockError, redlock};

#[redlock(resource = "order:{0}")]
async fn locked_0(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{1:04}")]
async fn locked_1(shop: u64, id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
