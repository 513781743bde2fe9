use redlock_core::redlock;

fn fallback() -> i32 {
    -1
}

#[redlock(resource = "a", on_reject = 5)]
async fn number(id: u64) -> i32 {
    7
}

#[redlock(resource = "a", on_reject = -1)]
async fn negative_number(id: u64) -> i32 {
    7
}

#[redlock(resource = "a", on_reject = (1, 2))]
async fn pair(id: u64) -> (i32, i32) {
    (7, 8)
}

#[redlock(resource = "a", on_reject = Default::default())]
async fn default(id: u64) -> i32 {
    7
}

#[redlock(resource = "a", on_reject = "none".into())]
async fn converted(id: u64) -> String {
    "seven".into()
}

#[redlock(resource = "a", on_reject = None)]
async fn nothing(id: u64) -> Option<u8> {
    Some(7)
}

#[redlock(resource = "a", on_reject = fallback())]
async fn value_of_a_function(id: u64) -> i32 {
    7
}

#[redlock(resource = "a", on_reject = fallback)]
async fn function_without_an_error(id: u64) -> i32 {
    7
}

#[redlock(resource = "a", on_reject = || -1)]
async fn closure_without_an_error(id: u64) -> i32 {
    7
}

fn main() {}
