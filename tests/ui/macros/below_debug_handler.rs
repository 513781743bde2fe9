use axum::extract::Path;
use redlock_core::{LockError, redlock};

struct AppError;

impl From<LockError> for AppError {
    fn from(_: LockError) -> Self {
        Self
    }
}

impl axum::response::IntoResponse for AppError {
    fn into_response(self) -> axum::response::Response {
        String::new().into_response()
    }
}

#[axum::debug_handler]
/// Pays.
#[redlock(resource = "order:{id}", lock = guard)]
async fn pay(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(format!("{id} {}", guard.resource()))
}

// Without a use of the lock, and in the other order, there is nothing to tell.
#[axum::debug_handler]
#[redlock(resource = "order:{id}", lock = _guard)]
async fn unused(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(id.to_string())
}

#[redlock(resource = "order:{id}", lock = guard)]
#[axum::debug_handler]
async fn above(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(guard.resource().to_owned())
}

fn main() {}
