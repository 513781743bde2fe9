use redlock_core::{LockError, redlock};

#[redlock(resource = "order:{id?}")]
async fn question_mark(id: Result<u64, LockError>) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{if *id == 0 { return Ok(()) } else { id }}")]
async fn returns(id: &u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{format!(\"{}\", id?)}")]
async fn question_mark_in_a_macro(id: Result<u64, LockError>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
