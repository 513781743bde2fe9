use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[redlock(resource = "{N}:{bytes[0]}", client = memory())]
async fn array<const N: usize>(bytes: [u8; N]) -> Result<(String, [u8; N]), AppError> {
    Ok((locked(), bytes))
}

#[tokio::test]
async fn constants_go_through() {
    assert_eq!(array([5, 6]).await.unwrap(), ("2:5".to_owned(), [5, 6]));
}
