use redlock_core::redlock;

#[redlock(resource = "a", on_reject = |_| "none")]
async fn locked(id: u64) -> u64 {
    id
}

fn main() {}
