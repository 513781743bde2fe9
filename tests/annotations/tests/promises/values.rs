//! Each value of an attribute stands by itself: what it borrows is given back before the next one.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use redlock_core::{Redlock, pools, redlock};

use crate::AppError;

/// Settings that may change while the program runs.
struct Settings {
    locks: Redlock,
    region: String,
    ttl: Duration,
    wait: Duration,
    tries: u32,
}

struct Shop {
    locks: Redlock,
    settings: Mutex<Settings>,
    /// What was evaluated, in its order.
    seen: Mutex<Vec<&'static str>>,
}

impl Shop {
    fn new() -> Self {
        let locks = Redlock::in_memory(1);
        let settings = Settings {
            locks: locks.clone(),
            region: "eu".into(),
            ttl: Duration::from_secs(3),
            wait: Duration::from_secs(1),
            tries: 2,
        };
        Self { locks, settings: Mutex::new(settings), seen: Mutex::default() }
    }

    /// Where a lock would wait for ever for what this call itself keeps, this one fails.
    fn now(&self) -> MutexGuard<'_, Settings> {
        self.settings.try_lock().unwrap()
    }

    fn saw<T>(&self, what: &'static str, value: T) -> T {
        self.seen.lock().unwrap().push(what);
        value
    }

    #[redlock(
        resource = "a",
        client = self.locks,
        ttl = self.now().ttl,
        wait = self.now().wait,
        auto_extend = true,
        retry_count = self.now().tries,
        lock = guard
    )]
    async fn settings(&self) -> Result<Duration, AppError> {
        Ok(guard.validity())
    }

    #[redlock(resource = "{self.now().region}", client = self.now().locks, wait = self.now().wait, lock = guard)]
    async fn client_and_template(&self) -> Result<String, AppError> {
        Ok(guard.resource().to_owned())
    }

    #[redlock(resource = &self.now().region, client = self.locks, wait = self.now().wait, lock = guard)]
    async fn borrowed_resource(&self) -> Result<String, AppError> {
        Ok(guard.resource().to_owned())
    }

    #[redlock(
        resource = "{self.now().region:>width$}:{id:02}:{self.now().tries}!",
        client = self.locks,
        lock = guard
    )]
    async fn holes(&self, id: u8, width: usize) -> Result<String, AppError> {
        Ok(guard.resource().to_owned())
    }

    #[redlock(
        resources = [&self.now().region, self.now().region.clone() + "!", "{self.now().tries}", "b"],
        client = self.locks,
        lock = guard
    )]
    async fn resources(&self) -> Result<Vec<String>, AppError> {
        Ok(guard.resources().to_vec())
    }

    #[redlock(resource = "a", pools = [&self.now().region, "values-b"], wait = self.now().wait, lock = guard)]
    async fn pools(&self) -> Result<usize, AppError> {
        Ok(guard.votes())
    }

    #[redlock(resource = "a", pool = self.now().region, wait = self.now().wait, lock = guard)]
    async fn pool(&self) -> Result<usize, AppError> {
        Ok(guard.votes())
    }

    #[redlock(
        resource = "{found(\"a\").await}:{found(\"b\").await}",
        client = self.settings.lock().unwrap().locks.clone(),
        wait = found(Duration::ZERO).await,
        lock = guard
    )]
    async fn awaits(&self) -> Result<String, AppError> {
        Ok(guard.resource().to_owned())
    }

    #[redlock(
        wait = self.saw("wait", Duration::ZERO),
        ttl = self.saw("ttl", Duration::from_secs(3)),
        resource = self.saw("resource", "a"),
        client = self.saw("client", self.locks.clone())
    )]
    async fn in_order(&self) -> Result<(), AppError> {
        self.saw("body", Ok(()))
    }

    #[redlock(
        resource = key.ok_or(AppError::Own("no key"))?,
        client = self.locks,
        wait = if patient { self.now().wait } else { return Ok("in a hurry") }
    )]
    async fn leaves_early(
        &self,
        key: Option<&str>,
        patient: bool,
    ) -> Result<&'static str, AppError> {
        Ok("ran")
    }
}

async fn found<T>(value: T) -> T {
    tokio::task::yield_now().await;
    value
}

fn send<T: Send>(value: T) -> T {
    value
}

#[tokio::test(start_paused = true)]
async fn a_value_gives_back_what_it_borrows_before_the_next_one() {
    let shop = Shop::new();
    assert!(shop.settings().await.unwrap() < Duration::from_secs(3));
    assert_eq!(shop.client_and_template().await.unwrap(), "eu");
    assert_eq!(shop.borrowed_resource().await.unwrap(), "eu");
    assert_eq!(shop.resources().await.unwrap(), ["eu", "eu!", "2", "b"]);
}

#[tokio::test(start_paused = true)]
async fn so_does_a_hole_of_a_template() {
    let shop = Shop::new();
    assert_eq!(shop.holes(5, 4).await.unwrap(), "  eu:05:2!");
}

#[tokio::test(start_paused = true)]
async fn so_does_the_name_of_a_pool() {
    let shop = Shop::new();
    pools::install("eu", Redlock::in_memory(1)).unwrap();
    pools::install("values-b", Redlock::in_memory(2)).unwrap();
    assert_eq!(shop.pool().await.unwrap(), 1);
    assert!(shop.pools().await.unwrap() >= 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_value_borrows_does_not_live_across_the_await_of_another() {
    let shop = Shop::new();
    assert_eq!(send(shop.awaits()).await.unwrap(), "a:b");
}

#[tokio::test(start_paused = true)]
async fn the_client_comes_first_then_the_resource_then_the_settings_as_they_are_written() {
    let shop = Shop::new();
    shop.in_order().await.unwrap();
    assert_eq!(*shop.seen.lock().unwrap(), ["client", "resource", "wait", "ttl", "body"]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_returns_leaves_the_function_without_a_lock() {
    let shop = Shop::new();
    let refused = shop.leaves_early(None, true).await;
    assert!(matches!(refused, Err(AppError::Own("no key"))), "{refused:?}");
    assert_eq!(shop.leaves_early(Some("a"), false).await.unwrap(), "in a hurry");
    assert!(shop.locks.memory_nodes()[0].keys().is_empty());
    assert_eq!(shop.leaves_early(Some("a"), true).await.unwrap(), "ran");
}
