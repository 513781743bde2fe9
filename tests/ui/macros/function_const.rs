use redlock_core::{LockError, redlock};

#[redlock(resource = "a")]
const fn locked() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
