use redlock_core::{LockError, redlock};

struct AppError;
struct Shop;

#[async_trait::async_trait]
trait Orders {
    async fn error(&self) -> Result<(), AppError>;
    async fn body(&self) -> Result<u64, LockError>;
    async fn key(&self, id: u64) -> Result<u64, LockError>;
    async fn unit(&self);
}

#[async_trait::async_trait]
impl Orders for Shop {
    #[redlock(resource = "a")]
    async fn error(&self) -> Result<(), AppError> {
        Ok(())
    }

    #[redlock(resource = "a")]
    async fn body(&self) -> Result<u64, LockError> {
        Ok("one")
    }

    #[redlock(resource = "{self.id}:{id}")]
    async fn key(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[redlock(resource = "a")]
    async fn unit(&self) {}
}

fn main() {}
