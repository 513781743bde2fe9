use redlock_core::{LockError, redlock};
use std::pin::Pin;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[redlock(resource = "order:{id}")]
fn pay(id: u64, is_paid: bool) -> BoxFuture<'static, Result<(), LockError>> {
    if is_paid {
        return Box::pin(async { Ok(()) });
    }
    Box::pin(async move { work(id).await })
}

async fn work(_: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
