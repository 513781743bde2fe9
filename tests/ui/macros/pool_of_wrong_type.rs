use redlock_core::{LockError, redlock};

#[redlock(resource = "a", pool = shop)]
async fn locked(shop: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
