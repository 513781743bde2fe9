use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::collections::BTreeMap;

#[redlock(resource = "a", client = memory())]
async fn collected(words: &[&str]) -> Result<BTreeMap<String, u64>, AppError> {
    Ok(words.iter().map(|word| ((*word).into(), word.len() as _)).collect())
}

#[redlock(resource = "a", client = memory())]
async fn parsed(text: &str) -> Result<u16, AppError> {
    let number = text.parse()?;
    Ok(number)
}

#[redlock(resource = "a", client = memory())]
async fn unsized_result()
-> Result<Box<dyn Fn(u8) -> u8 + Send>, Box<dyn std::error::Error + Send + Sync>> {
    if locked().is_empty() {
        return Err("no lock".into());
    }
    Ok(Box::new(|n| n + 1))
}

#[redlock(resource = "a", client = memory(), on_reject = |_| Default::default())]
async fn defaulted() -> Vec<u8> {
    Default::default()
}

#[redlock(resource = "a", client = memory())]
async fn only_errors() -> Result<std::convert::Infallible, AppError> {
    Err(AppError::Other("as always".into()))
}

#[tokio::test]
async fn the_return_type_guides_the_body() {
    assert_eq!(collected(&["ab"]).await.unwrap()["ab"], 2);
    assert_eq!(parsed("8").await.unwrap(), 8);
    assert_eq!(unsized_result().await.unwrap()(1), 2);
    assert!(defaulted().await.is_empty());
    assert!(only_errors().await.is_err());
}
