use redlock_core::{LockError, redlock};

#[redlock(resource = "a", pool = "a", client = id)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", pools = ["a"], pool = "b")]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", pools = ["a"], client = id)]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
