use crate::{AppError, memory};
use redlock_core::{LockHandle, redlock};

#[redlock(resource = "order:{id}", client = memory(), lock = guard)]
async fn held(id: u64) -> Result<LockHandle, AppError> {
    let guard: LockHandle = guard;
    assert!(guard.is_valid());
    assert_eq!(guard.resource(), format!("order:{id}"));
    assert_eq!(guard.votes(), 1);
    Ok(guard.clone())
}

/// The handle may be moved into work that must notice the loss by itself.
#[redlock(resource = "a", client = memory(), lock = guard)]
async fn moved() -> Result<tokio::task::JoinHandle<()>, AppError> {
    Ok(tokio::spawn(async move { guard.lost().await }))
}

#[redlock(resource = "a", client = memory(), lock = _guard)]
async fn unused() -> Result<(), AppError> {
    Ok(())
}

#[tokio::test]
async fn the_body_finds_its_lock_by_the_name_it_chose() {
    let handle = held(1).await.unwrap();
    assert!(!handle.is_valid());
    moved().await.unwrap().await.unwrap();
    unused().await.unwrap();
}
