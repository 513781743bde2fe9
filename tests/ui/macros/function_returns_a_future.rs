use redlock_core::{LockError, redlock};
use std::pin::Pin;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type PayFuture = BoxFuture<'static, Result<(), LockError>>;

trait Boxed: Future + Sized + Send + 'static {
    fn boxed(self) -> BoxFuture<'static, Self::Output> {
        Box::pin(self)
    }
}

impl<F: Future + Send + 'static> Boxed for F {}

async fn work() -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a")]
fn boxed_by_a_method() -> BoxFuture<'static, Result<(), LockError>> {
    async move { work().await }.boxed()
}

#[redlock(resource = "a")]
fn plain_call() -> impl Future<Output = Result<(), LockError>> {
    work()
}

#[redlock(resource = "a")]
fn boxed_call() -> Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    Box::pin(work())
}

#[redlock(resource = "a")]
fn by_a_name() -> PayFuture {
    Box::pin(async move { work().await })
}

fn main() {}
