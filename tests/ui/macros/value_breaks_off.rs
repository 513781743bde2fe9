use redlock_core::{LockError, Redlock, redlock};

struct Shop {
    locks: Redlock,
}

impl Shop {
    #[redlock(resource = "a", client = self.)]
    async fn at_the_end(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[redlock(resource = "a", client = self., lock = guard)]
    async fn before_another_key(&self) -> Result<(), LockError> {
        guard.lost().await;
        Ok(())
    }

    #[redlock(resource = "a", client = self.locks, ttl = =)]
    async fn no_expression(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
