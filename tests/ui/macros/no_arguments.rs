use redlock_core::{LockError, redlock};

#[redlock]
async fn bare() -> Result<(), LockError> {
    Ok(())
}

#[redlock()]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
