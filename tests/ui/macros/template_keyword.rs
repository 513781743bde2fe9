use redlock_core::{LockError, redlock};

struct Item {
    r#type: u8,
}

#[redlock(resource = "order:{type}")]
async fn alone(r#type: u8) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{item.type:03}")]
async fn field(item: Item) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
