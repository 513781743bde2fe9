use crate::{AppError, locked, memory};
use redlock_core::redlock;

type Result<T, E = AppError> = std::result::Result<T, E>;

mod service {
    pub(crate) type Result = std::result::Result<String, super::AppError>;
}

/// Not called `Result`, so the attribute cannot know: `on_reject` says it.
type Outcome = Result<String>;

#[redlock(resource = "a", client = memory())]
async fn one_parameter() -> Result<String> {
    Ok(locked())
}

#[redlock(resource = "a", client = memory())]
async fn no_parameter() -> service::Result {
    Ok(locked())
}

#[redlock(resource = "a", client = memory())]
async fn whole_path() -> ::core::result::Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", client = memory(), on_reject = |error| Err(error.into()))]
async fn other_name() -> Outcome {
    Ok(locked())
}

#[redlock(resource = "a", client = memory())]
async fn any_error() -> Result<String, Box<dyn std::error::Error>> {
    Ok(locked())
}

#[tokio::test]
async fn a_result_under_any_name_is_one() {
    assert_eq!(one_parameter().await.unwrap(), "a");
    assert_eq!(no_parameter().await.unwrap(), "a");
    assert_eq!(whole_path().await.unwrap(), "a");
    assert_eq!(other_name().await.unwrap(), "a");
    assert_eq!(any_error().await.unwrap(), "a");
}
