use crate::{AppError, locked, memory};
use axum::extract::Path;
use redlock_core::redlock;

#[axum::debug_handler]
#[redlock(resource = "order:{id}", client = memory())]
async fn above(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "order:{id}", client = memory())]
#[axum::debug_handler]
async fn below(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(locked())
}

/// `debug_handler` copies the body, without what the attribute adds to it: with `lock` it goes
/// below.
#[redlock(resource = "order:{id}", client = memory(), lock = guard)]
#[axum::debug_handler]
async fn below_with_the_lock(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(guard.resource().to_owned())
}

#[tokio::test]
async fn debug_handler_goes_on_either_side() {
    assert_eq!(above(Path(1)).await.unwrap(), "order:1");
    assert_eq!(below(Path(2)).await.unwrap(), "order:2");
    assert_eq!(below_with_the_lock(Path(3)).await.unwrap(), "order:3");
}
