use redlock_core::{LockError, redlock};

#[redlock(resources = ["a", "b"], shared)]
async fn locked_1(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = ["a", "b"], permits = 2)]
async fn locked_2(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(permits = id as u32, resources = ["a:{id}", String::from("b")])]
async fn locked_3(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = ["a", "b"], shared, permits = 2)]
async fn locked_4(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
