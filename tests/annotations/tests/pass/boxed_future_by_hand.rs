use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::pin::Pin;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[redlock(resource = "order:{id}", client = memory())]
fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<String, AppError>> + Send>> {
    let doubled = id * 2;
    Box::pin(async move {
        let again = doubled;
        Ok(format!("{} {again}", locked()))
    })
}

mod future {
    use std::pin::Pin;

    pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
}

#[redlock(resource = "order:{id}", client = memory())]
fn by_another_name(id: u64) -> future::BoxFuture<'static, Result<String, AppError>> {
    Box::pin(async move { Ok(locked()) })
}

struct Shop(u64);

impl Shop {
    #[redlock(resource = "order:{self.0}", client = memory(), on_reject = |_| None)]
    fn borrowed(&self) -> future::BoxFuture<'_, Option<String>> {
        Box::pin(async move { Some(format!("{} {}", locked(), self.0)) })
    }
}

#[redlock(resource = "order:{id}", client = memory())]
fn by_a_name_of_ours(id: u64) -> Boxed<Result<String, AppError>> {
    Box::pin(async move { Ok(locked()) })
}

#[allow(clippy::manual_async_fn)]
#[redlock(resource = "order:{id}", client = memory())]
fn opaque(id: u64) -> impl Future<Output = Result<String, AppError>> + Send {
    async move {
        if id == 0 {
            return Err(AppError::Other("zero".into()));
        }
        Ok(locked())
    }
}

/// What it borrows comes from outside of the function, so that without the attribute it needs no `move`.
#[allow(clippy::manual_async_fn)]
#[redlock(resource = "order:{id}", client = memory())]
fn without_move<'a>(id: &'a str) -> impl Future<Output = Result<&'a str, AppError>> + Send {
    async { Ok(id.trim()) }
}

#[tokio::test]
async fn a_function_that_ends_in_an_async_block_is_locked_in_it() {
    let future: Boxed<_> = boxed(1);
    assert_eq!(future.await.unwrap(), "order:1 2");
    assert_eq!(by_another_name(2).await.unwrap(), "order:2");
    assert_eq!(Shop(4).borrowed().await.unwrap(), "order:4 4");
    assert_eq!(by_a_name_of_ours(5).await.unwrap(), "order:5");
    assert_eq!(opaque(3).await.unwrap(), "order:3");
    assert!(opaque(0).await.is_err());
    assert_eq!(without_move(" 6 ").await.unwrap(), "6");
}
