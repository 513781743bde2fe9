use crate::{AppError, locked, memory};
use redlock_core::{Redlock, redlock};
use std::sync::Arc;

pub(crate) struct Shop {
    id: u64,
    sold: u32,
    locks: Redlock,
}

impl Shop {
    fn new() -> Self {
        Self { id: 3, sold: 0, locks: memory() }
    }

    #[redlock(resource = "shop:{self.id}:{n}", client = self.locks)]
    async fn shared(&self, n: u8) -> Result<String, AppError> {
        Ok(format!("{} {}", locked(), self.sold))
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks)]
    async fn exclusive(&mut self, n: u32) -> Result<String, AppError> {
        self.sold += n;
        tokio::task::yield_now().await;
        self.sold += n;
        Ok(locked())
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks)]
    async fn counted(self: Arc<Self>) -> Result<(String, Arc<Self>), AppError> {
        Ok((locked(), self))
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks)]
    async fn consumed(self) -> Result<(String, Self), AppError> {
        Ok((locked(), self))
    }

    #[redlock(resource = "shop:{self.id}", client = self.locks)]
    async fn changed(mut self) -> Result<u32, AppError> {
        self.sold += 1;
        Ok(self.sold)
    }

    #[redlock(resource = "shop", client = memory())]
    async fn associated() -> Result<Self, AppError> {
        Ok(Self::new())
    }
}

#[tokio::test]
async fn every_receiver_is_free_for_the_body_after_the_key() {
    let mut shop = Shop::associated().await.unwrap();
    assert_eq!(shop.exclusive(2).await.unwrap(), "shop:3");
    assert_eq!(shop.shared(1).await.unwrap(), "shop:3:1 4");
    let (key, shop) = Arc::new(shop).counted().await.unwrap();
    assert_eq!(key, "shop:3");
    let (_, shop) = Arc::into_inner(shop).unwrap().consumed().await.unwrap();
    assert_eq!(shop.changed().await.unwrap(), 5);
}
