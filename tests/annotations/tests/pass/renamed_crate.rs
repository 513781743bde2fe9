use crate::AppError;

mod vendored {
    pub(crate) use redlock_core as locks;
}

use vendored::locks::redlock as exclusive;

#[exclusive(resource = "a", client = crate::memory(), lock = guard, crate = vendored::locks)]
async fn relative() -> Result<String, AppError> {
    Ok(guard.resource().to_owned())
}

#[exclusive(resource = "a", client = crate::memory(), crate = crate::renamed_crate::vendored::locks)]
async fn absolute() -> Result<String, AppError> {
    Ok(crate::locked())
}

#[tokio::test]
async fn core_may_have_another_name() {
    assert_eq!(relative().await.unwrap(), "a");
    assert_eq!(absolute().await.unwrap(), "a");
}
