use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::fmt::{Debug, Display};

#[redlock(resource = "{prefix}:{value:?}", client = memory())]
async fn generic<T, P>(prefix: P, value: T) -> Result<(String, T), AppError>
where
    P: Display + Send,
    T: Debug + Clone + Send,
{
    Ok((locked(), value.clone()))
}

pub(crate) struct Store<K> {
    key: K,
}

impl<K: Display + Sync> Store<K> {
    #[redlock(resource = "{self.key}:{other}", client = memory())]
    async fn both<O>(&self, other: O) -> Result<String, AppError>
    where
        O: Display,
    {
        Ok(locked())
    }
}

#[redlock(resource = "{values.len()}", client = memory())]
async fn callback<F, R>(values: Vec<R>, mut f: F) -> Result<Vec<R>, AppError>
where
    F: FnMut(R) -> R,
{
    Ok(values.into_iter().map(&mut f).collect())
}

#[tokio::test]
async fn type_parameters_go_through() {
    assert_eq!(generic("a", Some(1)).await.unwrap(), ("a:Some(1)".to_owned(), Some(1)));
    assert_eq!(Store { key: 1 }.both("x").await.unwrap(), "1:x");
    assert_eq!(callback(vec![1, 2], |n| n + 1).await.unwrap(), [2, 3]);
}
