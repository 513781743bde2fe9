use redlock_core::{LockError, redlock};

#[redlock(resource = "a", priority)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", tll = "30s")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", retryCount = 3)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", timeout = "2s")]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", no_auto_extend)]
async fn locked_5(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(keys = ["a", "b"])]
async fn locked_6(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
