use redlock_core::redlock;

mod other {
    pub struct Result;
}

#[redlock(resource = "a")]
async fn locked() -> other::Result {
    other::Result
}

fn main() {}
