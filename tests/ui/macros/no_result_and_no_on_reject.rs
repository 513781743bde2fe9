use redlock_core::redlock;

#[redlock(resource = "a")]
async fn value(id: u64) -> u64 {
    id
}

#[redlock(resource = "a")]
async fn unit() {}

#[redlock(resource = "a")]
async fn opaque() -> impl Sized {}

fn main() {}
