use redlock_core::{LockError, redlock};

#[tokio::main(flavor = "current_thread")]
#[redlock(resource = "a")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
