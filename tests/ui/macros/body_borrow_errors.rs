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

struct Counter {
    n: u64,
}

impl Counter {
    #[redlock(resource = "a")]
    async fn shared(&self) -> Result<(), LockError> {
        self.n += 1;
        Ok(())
    }
}

#[redlock(resource = "a")]
async fn borrowed(counter: &Counter) -> Result<(), LockError> {
    counter.n += 1;
    Ok(())
}

fn main() {}
