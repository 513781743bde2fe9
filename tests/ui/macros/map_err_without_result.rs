use redlock_core::redlock;

#[redlock(resource = "a", map_err = |error| error.to_string())]
async fn locked(id: u64) -> String {
    id.to_string()
}

fn main() {}
