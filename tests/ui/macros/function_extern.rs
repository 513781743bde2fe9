use redlock_core::redlock;

#[redlock(resource = "a")]
extern "C" fn locked() -> i32 {
    0
}

fn main() {}
