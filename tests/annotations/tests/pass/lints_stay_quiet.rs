//! Code that clippy takes without the attribute, it takes with it: `cargo clippy` reads this.
#![warn(clippy::pedantic, unused, unreachable_pub)]

use crate::{AppError, memory};
use redlock_core::{LockError, Redlock, redlock};
use std::{pin::Pin, time::Duration};
use tokio::task::JoinHandle;

pub(crate) struct Shop {
    locks: Redlock,
    name: String,
}

impl Shop {
    #[redlock(
        resource = "shop:{self.name}:{id}:{id:04}",
        client = self.locks,
        ttl = "30s",
        wait = Duration::from_secs(1),
        retry_count = 3,
        retry_delay = 50,
        retry_jitter = 20,
        clock_drift_factor = 0.01,
        auto_extend = true,
        max_hold = "1h",
        on_lost = "continue",
        lock = lock
    )]
    pub(crate) async fn everything(&self, id: u64) -> Result<u64, AppError> {
        const STEP: u64 = 1;
        tokio::task::yield_now().await;
        Ok(id + STEP + lock.votes() as u64)
    }

    #[redlock(resource = "{self.name}", client = &self.locks, map_err = AppError::Locked)]
    pub(crate) async fn references(&mut self) -> Result<(), AppError> {
        self.name.push('x');
        Ok(())
    }

    #[redlock(resource = &self.name, client = self.locks, on_reject = |_error| ())]
    pub(crate) async fn unit(&self) {}

    #[redlock(resource = "a", client = self.locks, skip_if_held)]
    pub(crate) async fn skipped(&self) {
        tokio::task::yield_now().await;
    }
}

#[redlock(resource = "{name}", client = memory())]
pub(crate) async fn only_the_name(name: String) -> Result<String, LockError> {
    Ok(name)
}

#[rustfmt::skip]
#[redlock(resource = "{name}", client = memory())]
pub(crate) async fn one_line(name: &str) -> Result<usize, AppError> { Ok(name.len()) }

/// A suggestion about a hole could only replace the whole template: there is none.
#[redlock(resource = "{id as u64}:{parts.get(0).is_some()}:{&id}:{(id)}", client = memory())]
pub(crate) async fn holes_are_no_code_of_their_own(
    id: u64,
    parts: Vec<u64>,
) -> Result<usize, LockError> {
    let _ = id;
    Ok(parts.len())
}

#[redlock(resource = "{_id}:{_id:04}", client = _locks)]
pub(crate) async fn only_for_the_key(_id: u64, _locks: Redlock) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "{_id + 1}", client = memory())]
pub(crate) async fn only_for_an_expression(_id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", client = memory())]
pub(crate) async fn branches(mut n: u8) -> Result<u8, AppError> {
    if n == 0 {
        return Err(AppError::Other("none".into()));
    }
    while n > 3 {
        n -= 1;
    }
    Ok(n)
}

#[redlock(resource = "a", client = memory(), on_reject = |_| Vec::new())]
pub(crate) async fn complex() -> Vec<Box<dyn Fn(u8, u8) -> Result<Option<u8>, String> + Send + Sync>>
{
    Vec::new()
}

#[redlock(resource = "a", client = memory())]
pub(crate) async fn started() -> Result<JoinHandle<()>, LockError> {
    Ok(tokio::spawn(async {}))
}

#[redlock(resource = "a", client = memory(), on_reject = |_| tokio::spawn(async {}))]
pub(crate) async fn a_task() -> JoinHandle<()> {
    tokio::spawn(async {})
}

#[redlock(resource = "a", client = memory(), on_reject = |_| Box::pin(async {}))]
pub(crate) async fn a_future() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async {})
}

#[tokio::test]
async fn it_all_runs() {
    let mut shop = Shop { locks: memory(), name: "x".into() };
    assert_eq!(shop.everything(1).await.unwrap(), 3);
    shop.references().await.unwrap();
    shop.unit().await;
    shop.skipped().await;
    assert_eq!(only_the_name("n".into()).await.unwrap(), "n");
    assert_eq!(one_line("n").await.unwrap(), 1);
    assert_eq!(holes_are_no_code_of_their_own(1, vec![2]).await.unwrap(), 1);
    only_for_the_key(1, memory()).await.unwrap();
    only_for_an_expression(1).await.unwrap();
    assert_eq!(branches(7).await.unwrap(), 3);
    assert!(complex().await.is_empty());
    started().await.unwrap().await.unwrap();
    a_task().await.await.unwrap();
    a_future().await.await;
}
