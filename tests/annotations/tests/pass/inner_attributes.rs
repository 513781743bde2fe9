use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[allow(unused_variables)]
#[redlock(resource = "a", client = memory())]
#[doc(hidden)]
#[inline]
async fn outer(unused: u8) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", client = memory())]
async fn inner(unused: u8) -> Result<String, AppError> {
    #![allow(unused_variables)]
    //! So is documentation written here.
    let unused_too = 1;
    Ok(locked())
}

#[redlock(resource = "a", client = memory())]
async fn on_arguments(#[allow(unused_variables)] unused: u8) -> Result<String, AppError> {
    Ok(locked())
}

#[tokio::test]
async fn attributes_stay_in_force() {
    assert_eq!(outer(1).await.unwrap(), "a");
    assert_eq!(inner(1).await.unwrap(), "a");
    assert_eq!(on_arguments(1).await.unwrap(), "a");
}
