use redlock_core::{LockError, redlock};

#[redlock(resource = "a", pool = 5)]
async fn literal(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", pools = ["a", 5])]
async fn one_of_several(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
