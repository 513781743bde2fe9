use redlock_core::{LockError, redlock};

#[redlock(resource = "a", on_lost = "panic")]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", on_lost = cancel)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
