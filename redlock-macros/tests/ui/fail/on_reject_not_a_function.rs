use redlock_core::redlock;

#[redlock(resource = "a", on_reject = 5)]
async fn locked(id: u64) -> i32 {
    7
}

fn main() {}
