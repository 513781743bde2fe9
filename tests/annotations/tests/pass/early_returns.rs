use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[redlock(resource = "{text}", client = memory())]
async fn parse(text: &str) -> Result<u32, AppError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: u32 = text.parse()?;
    for n in 0.. {
        if n == number {
            return Ok(n);
        }
        if n > 10 {
            break;
        }
    }
    Err(AppError::Other(locked()))
}

#[redlock(resource = "n", client = memory(), on_reject = |_| None)]
async fn option(n: Option<u8>) -> Option<u8> {
    let n = n?;
    (n > 3).then_some(n)
}

#[redlock(resource = "n", client = memory())]
async fn never_ends(go_on: bool) -> Result<u8, AppError> {
    loop {
        if !go_on {
            return Err(AppError::Other("stopped".into()));
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn return_and_question_mark_leave_the_body_only() {
    assert_eq!(parse("7").await.unwrap(), 7);
    assert!(matches!(parse("x").await, Err(AppError::Other(_))));
    assert!(matches!(parse("90").await, Err(AppError::Other(key)) if key == "90"));
    assert_eq!((option(None).await, option(Some(5)).await), (None, Some(5)));
    assert!(never_ends(false).await.is_err());
}

#[tokio::test]
async fn an_early_return_of_what_cannot_be_locked_is_an_error_of_the_lock() {
    // An empty resource: the body, which would return 0, does not run.
    assert!(matches!(parse("").await, Err(AppError::Locked(_))));
}
