use redlock_core::{LockError, redlock};

struct Receipt;

#[redlock(resource = "a", skip_if_held)]
async fn result() -> Result<Receipt, LockError> {
    Ok(Receipt)
}

#[redlock(resource = "a", skip_if_held)]
async fn value() -> Receipt {
    Receipt
}

fn main() {}
