use crate::{AppError, argument_patterns::Path, locked, memory};
use redlock_core::{LockError, LockHandle, Redlock, redlock};
use std::sync::Arc;

#[async_trait::async_trait]
trait Orders: Send + Sync {
    async fn plain(&self, id: u64) -> Result<String, AppError>;
    async fn changing(&mut self, mut n: u32, names: Vec<&str>) -> Result<u32, AppError>;
    async fn pattern(&self, path: Path<u64>, pair: (u8, u8)) -> Result<String, AppError>;
    async fn counted(self: Arc<Self>) -> Result<String, AppError>;
    async fn paths(&self, id: u64) -> Result<String, AppError>;
    async fn unit(&self);
    async fn generic<T: Send + std::fmt::Debug + 'static>(&self, value: T) -> Result<T, AppError>;
    async fn associated(id: u8) -> Result<String, AppError>
    where
        Self: Sized;
}

fn key_of(id: u64) -> String {
    format!("by {id}")
}

fn refused(error: LockError) -> AppError {
    AppError::Locked(error)
}

struct Shop {
    id: u8,
    sold: u32,
    locks: Redlock,
}

#[async_trait::async_trait]
impl Orders for Shop {
    #[redlock(resource = "shop:{self.id}:{id}", client = self.locks)]
    async fn plain(&self, id: u64) -> Result<String, AppError> {
        Ok(format!("{} {}", locked(), self.sold))
    }

    #[redlock(resource = format!("shop:{}:{}", self.id, names[0]), client = &self.locks, lock = guard)]
    async fn changing(&mut self, mut n: u32, names: Vec<&str>) -> Result<u32, AppError> {
        n += 1;
        self.sold += n;
        assert_eq!(guard.resource(), format!("shop:3:{}", names[0]));
        Ok(self.sold)
    }

    #[redlock(resource = "shop:{id}:{b}", client = self.locks)]
    async fn pattern(&self, Path(id): Path<u64>, (_, b): (u8, u8)) -> Result<String, AppError> {
        Ok(locked())
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks)]
    async fn counted(self: Arc<Self>) -> Result<String, AppError> {
        Ok(locked() + &Arc::strong_count(&self).to_string())
    }

    #[redlock(resource = self::key_of(id), client = self.locks, map_err = self::refused)]
    async fn paths(&self, id: u64) -> Result<String, AppError> {
        Ok(locked() + &self::key_of(self.sold.into()))
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks, on_reject = |_| ())]
    async fn unit(&self) {
        assert_eq!(LockHandle::current().unwrap().resource(), "shop:3");
    }

    #[redlock(resource = "shop:{value:?}", client = self.locks, map_err = |e| AppError::Other(format!("{} {e}", self.id)))]
    async fn generic<T: Send + std::fmt::Debug + 'static>(&self, value: T) -> Result<T, AppError> {
        assert_eq!(locked(), format!("shop:{value:?}"));
        Ok(value)
    }

    #[redlock(resource = "{id}", client = memory())]
    async fn associated(id: u8) -> Result<String, AppError> {
        Ok(locked())
    }
}

#[tokio::test]
async fn the_future_is_locked_and_not_its_making() {
    let mut shop = Shop { id: 3, sold: 0, locks: memory() };
    assert_eq!(shop.changing(1, vec!["x"]).await.unwrap(), 2);
    assert_eq!(shop.plain(7).await.unwrap(), "shop:3:7 2");
    assert_eq!(shop.pattern(Path(7), (1, 2)).await.unwrap(), "shop:7:2");
    assert_eq!(shop.paths(7).await.unwrap(), "by 7by 2");
    shop.unit().await;
    assert_eq!(shop.generic("v").await.unwrap(), "v");
    assert_eq!(Shop::associated(4).await.unwrap(), "4");
    assert_eq!(Arc::new(shop).counted().await.unwrap(), "shop:31");
}
