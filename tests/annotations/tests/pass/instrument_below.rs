use crate::{AppError, argument_patterns::Path, locked, memory};
use redlock_core::redlock;

#[redlock(resource = "order:{id}", client = memory())]
#[tracing::instrument(err, ret)]
async fn function(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "order:{id}", client = memory(), lock = guard)]
#[tracing::instrument(skip_all)]
async fn pattern(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(guard.resource().to_owned())
}

#[tokio::test]
async fn the_span_is_around_the_lock() {
    assert_eq!(function(1).await.unwrap(), "order:1");
    assert_eq!(pattern(Path(2)).await.unwrap(), "order:2");
}
