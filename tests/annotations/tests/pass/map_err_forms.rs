use crate::memory;
use redlock_core::{LockError, redlock};

/// Not `From<LockError>`.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    Empty(bool),
    Number(u8),
}

impl Refused {
    fn new(error: LockError) -> Self {
        Self::Empty(matches!(error, LockError::InvalidResource { .. }))
    }
}

#[redlock(resource = name, map_err = Refused::new, client = memory())]
async fn path(name: &str) -> Result<(), Refused> {
    Ok(())
}

#[redlock(resource = name, map_err = |_| Refused::Number(number), client = memory())]
async fn closure(name: &str, number: u8) -> Result<(), Refused> {
    Ok(())
}

#[redlock(
    resource = name,
    map_err = |error| match error { LockError::InvalidResource { .. } => "empty".into(), _ => "other".into() },
    client = memory()
)]
async fn inferred(name: &str) -> Result<(), Box<str>> {
    Ok(())
}

#[redlock(
    resource = "{name}",
    map_err = { let name = name.clone(); move |error| format!("{name}: {error}") },
    client = memory()
)]
async fn over_a_copy(name: String) -> Result<(), String> {
    drop(name);
    Ok(())
}

#[redlock(resource = name, map_err = drop, client = memory())]
async fn discarded(name: &str) -> Result<u8, ()> {
    Ok(1)
}

#[redlock(resource = name, map_err = std::convert::identity, client = memory())]
async fn as_it_is(name: &str) -> Result<u8, LockError> {
    Ok(1)
}

#[redlock(resource = name, map_err = Into::into, client = memory())]
async fn by_a_trait(name: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[redlock(resource = name, map_err = refused, client = memory())]
async fn argument(name: &str, refused: fn(LockError) -> Refused) -> Result<(), Refused> {
    Ok(())
}

#[tokio::test]
async fn any_function_of_the_error_makes_the_error() {
    path("x").await.unwrap();
    assert_eq!(path("").await, Err(Refused::Empty(true)));
    assert_eq!(closure("", 4).await, Err(Refused::Number(4)));
    assert_eq!(inferred("").await, Err("empty".into()));
    assert!(over_a_copy("".into()).await.unwrap_err().starts_with(": "));
    assert_eq!((discarded("").await, discarded("x").await), (Err(()), Ok(1)));
    assert!(as_it_is("").await.is_err());
    assert!(by_a_trait("").await.is_err());
    assert_eq!(argument("", Refused::new).await, Err(Refused::Empty(true)));
}
