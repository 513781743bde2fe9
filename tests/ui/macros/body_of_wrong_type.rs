use redlock_core::{LockError, redlock};

#[redlock(resource = "a")]
async fn tail() -> Result<u64, LockError> {
    Ok("one")
}

#[redlock(resource = "a")]
async fn early(id: u64) -> Result<u64, LockError> {
    if id == 0 {
        return Err("zero");
    }
    Ok(id)
}

#[redlock(resource = "a")]
async fn question_mark(text: &str) -> Result<u64, LockError> {
    Ok(text.parse()?)
}

#[redlock(resource = "a")]
async fn nothing() -> Result<u64, LockError> {
    let _ = 1;
}

#[redlock(resource = "a", on_reject = |_| "none".to_owned())]
async fn hidden() -> impl std::fmt::Display {
    1
}

fn main() {}
