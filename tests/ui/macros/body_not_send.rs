use redlock_core::{LockError, redlock};

use std::rc::Rc;

#[redlock(resource = "a")]
async fn locked() -> Result<(), LockError> {
    let counted = Rc::new(1);
    std::future::ready(()).await;
    drop(counted);
    Ok(())
}

fn spawn() {
    fn send(_: impl Send) {}
    send(locked());
}

fn main() {}
