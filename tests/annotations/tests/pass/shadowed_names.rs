//! Nothing that the attribute writes depends on what names mean where it stands.
#![no_implicit_prelude]

use ::redlock_core::redlock;

#[allow(dead_code)]
mod std {}
#[allow(dead_code)]
mod core {}
#[allow(dead_code)]
mod redlock_core {}
#[allow(dead_code)]
struct Duration;
#[allow(dead_code)]
struct LockOptions;
#[allow(dead_code)]
enum Option {
    None,
}
#[allow(unused_macros)]
macro_rules! format {
    () => {};
}

type Result = ::std::result::Result<::std::string::String, crate::AppError>;

#[redlock(
    resource = "order:{__redlock_request}",
    ttl = "30s",
    lock = __redlock_refusal,
    client = crate::memory()
)]
async fn pay(__redlock_request: u64) -> Result {
    let __redlock_never = __redlock_refusal;
    ::std::result::Result::Ok(::std::format!("{} {__redlock_request}", __redlock_never.resource()))
}

#[redlock(resource = "report", skip_if_held, on_reject = |_| 0, client = crate::memory())]
async fn count(run: u8) -> u8 {
    run
}

/// For `#[tokio::test]`, which itself needs the prelude.
mod run {
    use ::tokio;

    #[tokio::test]
    async fn names_do_not_meet() {
        ::std::assert_eq!(super::pay(7).await.unwrap(), "order:7 7");
        ::std::assert_eq!(super::count(3).await, 3);
    }
}
