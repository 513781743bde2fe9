use crate::memory;
use redlock_core::{LockError, redlock};

#[redlock(resource = name, on_reject = |_| -1, client = memory())]
async fn number(name: &str) -> i64 {
    1
}

#[redlock(resource = name, on_reject = |error| error.to_string(), client = memory())]
async fn text(name: &str) -> String {
    "fine".into()
}

fn refused(error: LockError) -> Option<u8> {
    error.is_held().then_some(0)
}

#[redlock(resource = name, on_reject = refused, client = memory())]
async fn function(name: &str) -> Option<u8> {
    Some(1)
}

#[redlock(resource = name, on_reject = drop, client = memory())]
async fn unit(name: &str) {}

#[redlock(resource = name, on_reject = |_| Box::new(std::iter::empty()), client = memory())]
async fn coerced(name: &str) -> Box<dyn Iterator<Item = u8> + Send> {
    Box::new(std::iter::once(1))
}

#[redlock(resource = name, on_reject = |_| Ok(-1), client = memory())]
async fn with_a_result(name: &str) -> Result<i64, String> {
    Err("the body's".into())
}

#[tokio::test]
async fn any_function_of_the_error_makes_the_return_value() {
    assert_eq!((number("x").await, number("").await), (1, -1));
    assert_eq!(text("x").await, "fine");
    assert!(text("").await.contains("cannot be locked"));
    assert_eq!((function("x").await, function("").await), (Some(1), None));
    unit("").await;
    assert_eq!((coerced("x").await.count(), coerced("").await.count()), (1, 0));
    assert_eq!(with_a_result("x").await, Err("the body's".into()));
    assert_eq!(with_a_result("").await, Ok(-1));
}
