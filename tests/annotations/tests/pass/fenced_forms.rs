use crate::{AppError, memory};
use redlock_core::{FencingToken, LockHandle, redlock};

#[redlock(resource = "stock:{sku}", client = memory(), fenced, lock = guard)]
async fn reserve(sku: u64) -> Result<Option<FencingToken>, AppError> {
    Ok(guard.fencing_token())
}

/// The word may stand anywhere, and code below finds the token without a name for the lock.
#[redlock(fenced, resource = "a", client = memory())]
async fn without_a_name() -> Result<Option<FencingToken>, AppError> {
    below().await
}

async fn below() -> Result<Option<FencingToken>, AppError> {
    Ok(LockHandle::current().and_then(|lock| lock.fencing_token()))
}

#[redlock(resource = "a", client = memory(), lock = guard)]
async fn plain() -> Result<Option<FencingToken>, AppError> {
    Ok(guard.fencing_token())
}

#[tokio::test]
async fn a_body_has_the_token_that_it_asks_for() {
    let first = reserve(1).await.unwrap();
    assert!(first.is_some());
    assert!(without_a_name().await.unwrap().is_some());
    assert!(plain().await.unwrap().is_none());
}
