use redlock_core::{LockError, redlock};

fn key_of(id: u64) -> u64 {
    id
}

#[redlock(resource = "order:{oid}")]
async fn slip_in_a_name(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{oid + 1}:{id}")]
async fn slip_in_an_expression(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{key_off(id)}")]
async fn slip_in_a_function(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{key_of()}")]
async fn argument_missing(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{name.len}")]
async fn brackets_missing(name: &str) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{pair.x}")]
async fn field_of_a_pair(pair: (u8, u8)) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
