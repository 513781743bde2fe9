use redlock_core::{LockError, redlock};

struct Shop {
    name: String,
}

#[redlock(resource = shop.name)]
async fn locked(shop: &Shop) -> Result<(), LockError> {
    let _ = shop;
    Ok(())
}

fn main() {}
