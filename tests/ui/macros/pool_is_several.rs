use redlock_core::{LockError, redlock};

#[redlock(resource = "a", pool = ["a", "b"])]
async fn locked(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
