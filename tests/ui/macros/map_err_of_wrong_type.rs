use redlock_core::{LockError, redlock};

fn text(error: LockError) -> String {
    error.to_string()
}

#[redlock(resource = "a", map_err = |error| error.to_string())]
async fn closure() -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", map_err = text)]
async fn function() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
