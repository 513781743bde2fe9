use redlock_core::{LockError, redlock};

struct Order;

#[redlock(resource = "order:{order}")]
async fn locked(order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
