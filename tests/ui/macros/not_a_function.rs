use redlock_core::{LockError, redlock};

#[redlock(resource = "a")]
struct Order;

struct Shop;

#[redlock(resource = "a")]
impl Shop {
    pub async fn pay(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[redlock(resource = "a")]
trait Orders {
    fn id(&self) -> u64;
}

fn main() {}
