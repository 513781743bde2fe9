use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[redlock(resource = "inner:{id}", client = memory(), lock = inner)]
#[redlock(resource = "outer:{id}", client = memory(), lock = outer)]
async fn two(id: u64) -> Result<String, AppError> {
    Ok(format!("{} {} {}", outer.resource(), inner.resource(), locked()))
}

#[async_trait::async_trait]
trait Service {
    async fn both(&self, pair: (u8, u8)) -> Result<String, AppError>;
}

struct Shop(u8);

#[async_trait::async_trait]
impl Service for Shop {
    #[redlock(resource = "inner:{self.0}:{b}", client = memory())]
    #[redlock(resource = "outer:{self.0}", client = memory())]
    async fn both(&self, (_, b): (u8, u8)) -> Result<String, AppError> {
        Ok(locked())
    }
}

#[tokio::test]
async fn the_last_attribute_is_the_outermost_lock() {
    assert_eq!(two(1).await.unwrap(), "outer:1 inner:1 inner:1");
    assert_eq!(Shop(1).both((2, 3)).await.unwrap(), "inner:1:3");
}
