use redlock_core::{LockError, redlock};

#[redlock(resources = [])]
async fn none(from: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "account:{from}", resources = ["account:{from}", "account:{to}"])]
async fn both(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = "account:{from}")]
async fn one(from: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = ["account:{from}", 42, ""])]
async fn two_wrong(from: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = ["account:{from}", to])]
async fn wrong_type(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = ["account:{from}", "account:{to}"])]
async fn wrong_key(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
