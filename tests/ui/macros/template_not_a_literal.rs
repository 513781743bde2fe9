use redlock_core::{LockError, redlock};

#[redlock(resource = concat!("order:", "{id}"))]
async fn concatenated(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = { concat!("order:", "{id}") })]
async fn concatenated_in_a_block(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:{id}".to_string())]
async fn converted(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = String::from("order:{id}"))]
async fn converted_by_a_function(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = &"order:{id}")]
async fn borrowed(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "order:".to_owned() + "{id}")]
async fn added(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = if id > 7 { "large" } else { "order:{id}" })]
async fn chosen(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
