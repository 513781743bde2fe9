use redlock_core::{LockError, redlock};

trait Orders {
    #[redlock(resource = "a")]
    async fn pay(&self) -> Result<(), LockError>;
}

fn main() {}
