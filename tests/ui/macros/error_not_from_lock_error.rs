use redlock_core::redlock;

struct AppError;

#[redlock(resource = "a")]
async fn locked() -> Result<(), AppError> {
    Ok(())
}

#[redlock(resource = "a", skip_if_held)]
async fn skipped() -> Result<(), AppError> {
    Ok(())
}

fn main() {}
