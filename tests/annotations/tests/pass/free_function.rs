use crate::{AppError, locked, memory};
use redlock_core::redlock;

/// Its documentation stays.
#[redlock(resource = "order:{order_id}", ttl = 30000, client = memory())]
pub(crate) async fn pay(order_id: u64) -> Result<String, AppError> {
    tokio::task::yield_now().await;
    Ok(locked())
}

#[redlock(resource = "fixed", client = memory())]
async fn nothing_to_return() -> Result<(), AppError> {
    assert_eq!(locked(), "fixed");
    Ok(())
}

#[tokio::test]
async fn the_body_runs_under_its_lock_and_its_result_is_the_result() {
    assert_eq!(pay(7).await.unwrap(), "order:7");
    nothing_to_return().await.unwrap();
    assert_eq!(locked(), "nothing");
}
