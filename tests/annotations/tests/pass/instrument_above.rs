use crate::{AppError, argument_patterns::Path, locked, memory};
use redlock_core::redlock;

#[tracing::instrument(err, ret)]
#[redlock(resource = "order:{id}", client = memory())]
async fn function(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[tracing::instrument(skip_all)]
#[redlock(resource = "order:{id}", client = memory())]
async fn pattern(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(locked())
}

#[tokio::test]
async fn the_lock_is_around_the_span() {
    assert_eq!(function(1).await.unwrap(), "order:1");
    assert_eq!(pattern(Path(2)).await.unwrap(), "order:2");
}
