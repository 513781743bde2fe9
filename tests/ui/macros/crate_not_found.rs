use redlock_core::{LockError, redlock};

#[redlock(resource = "a", crate = lockred_core)]
async fn locked() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
