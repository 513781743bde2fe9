use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::fmt::Display;

#[redlock(resource = "{id}", client = memory())]
async fn shown(
    id: impl Display + Send,
    then: impl FnOnce() -> u8 + Send,
) -> Result<String, AppError> {
    Ok(format!("{} {}", locked(), then()))
}

#[redlock(resource = format!("of:{}", names.clone().count()), client = memory())]
async fn iterated(names: impl Iterator<Item = u8> + Clone) -> Result<u8, AppError> {
    assert_eq!(locked(), "of:2");
    Ok(names.sum())
}

#[tokio::test]
async fn anonymous_type_parameters_go_through() {
    assert_eq!(shown(4, || 5).await.unwrap(), "4 5");
    assert_eq!(iterated([1, 2].into_iter()).await.unwrap(), 3);
}
