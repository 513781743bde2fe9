use redlock_core::{LockError, redlock};

#[redlock(resource = "a", auto_extend = "true")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", auto_extend = id)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
