use redlock_core::{LockError, redlock};

struct Shop;

impl Shop {
    #[redlock(resource = "a", ttl = "soon", wait = "later", lock = guard)]
    async fn pay(&self, id: u64) -> Result<u64, LockError> {
        assert!(guard.is_valid());
        Ok(id)
    }
}

async fn caller(shop: Shop) -> Result<u64, LockError> {
    Ok(shop.pay(1).await? + 1)
}

fn main() {}
