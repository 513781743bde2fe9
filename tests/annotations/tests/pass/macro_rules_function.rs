use crate::{AppError, locked, memory};
use redlock_core::redlock;

macro_rules! locked_function {
    ($name:ident, $resource:expr, $ttl:expr, $lock:ident, ($($argument:ident: $ty:ty),*) $body:block) => {
        #[redlock(resource = $resource, ttl = $ttl, client = memory(), lock = $lock)]
        async fn $name($($argument: $ty),*) -> Result<String, AppError> $body
    };
}

locked_function!(template, "order:{id}", "10s", guard, (id: u64) {
    Ok(format!("{} {id}", guard.resource()))
});
locked_function!(expression, format!("{}", id + 1), 10_000, _guard, (id: u64) { Ok(locked()) });

locked_function!(computed, "order:{id + 1}", "10s", _guard, (id: u64) { Ok(locked()) });

macro_rules! hygienic {
    ($inside:ident, $computed:ident) => {
        #[redlock(resource = "order:{id}", client = memory())]
        async fn $inside(id: u64) -> Result<String, AppError> {
            Ok(format!("{} {id}", locked()))
        }

        #[redlock(resource = "order:{id + 1}", client = memory())]
        async fn $computed(id: u64) -> Result<String, AppError> {
            Ok(format!("{} {id}", locked()))
        }
    };
}

hygienic!(inside, inside_computed);

#[tokio::test]
async fn a_macro_may_write_the_attribute() {
    assert_eq!(template(1).await.unwrap(), "order:1 1");
    assert_eq!(expression(1).await.unwrap(), "2");
    assert_eq!(computed(1).await.unwrap(), "order:2");
    assert_eq!(inside_computed(3).await.unwrap(), "order:4 3");
    assert_eq!(inside(3).await.unwrap(), "order:3 3");
}
