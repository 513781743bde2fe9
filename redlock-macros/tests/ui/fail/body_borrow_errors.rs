use redlock_core::{LockError, redlock};

#[redlock(resource = "a")]
async fn moved(name: String) -> Result<String, LockError> {
    drop(name);
    Ok(name)
}

#[redlock(resource = "a")]
async fn not_mutable(name: String) -> Result<String, LockError> {
    name.push('x');
    Ok(name)
}

fn main() {}
