use redlock_core::{LockError, redlock};

#[redlock(resource = "order:{order_id}")]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
