use redlock_core::{LockError, redlock};

struct Order {
    id: u64,
}

#[redlock(resource = "order:{id}", lock = id)]
async fn locked(Order { id }: Order) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
