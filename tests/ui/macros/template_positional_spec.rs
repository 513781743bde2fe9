use redlock_core::{LockError, redlock};

#[redlock(resource = "{id:>1$}")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "{id:.*}")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
