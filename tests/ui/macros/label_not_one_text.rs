use redlock_core::{LockError, redlock};

#[redlock(resource = "a", label = "")]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", label = format!("order:{id}"))]
async fn different_at_each_call(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", label = 5)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
