use redlock_core::{LockError, redlock};

#[derive(Debug)]
enum AppError {
    Busy,
    Locked(LockError),
}

#[redlock(resource = "a", map_err = "locked")]
async fn text(id: u64) -> Result<(), AppError> {
    Ok(())
}

#[redlock(resource = "a", map_err = AppError::Busy)]
async fn value(id: u64) -> Result<(), AppError> {
    Ok(())
}

#[redlock(resource = "a", map_err = AppError::Locked(error))]
async fn call(id: u64) -> Result<(), AppError> {
    Ok(())
}

#[redlock(resource = "a", map_err = || AppError::Busy)]
async fn closure_without_an_error(id: u64) -> Result<(), AppError> {
    Ok(())
}

fn main() {}
