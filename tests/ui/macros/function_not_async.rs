use redlock_core::{LockError, redlock};

#[redlock(resource = "a")]
fn locked() -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a")]
fn future() -> impl Future<Output = Result<(), LockError>> {
    std::future::ready(Ok(()))
}

fn main() {}
