use crate::{AppError, locked, memory};
use redlock_core::{Redlock, redlock};
use std::{cell::RefCell, fmt::Display, sync::Arc};

pub(crate) struct Shop {
    locks: Redlock,
}

impl Shop {
    #[redlock(resource = "a:{id}", client = self.locks, lock = guard, map_err = |e| AppError::Other(e.to_string()))]
    async fn shared(&self, id: &str) -> Result<String, AppError> {
        tokio::task::yield_now().await;
        Ok(guard.resource().to_owned())
    }

    #[redlock(resource = "a", client = self.locks, skip_if_held, on_lost = "continue")]
    async fn exclusive(&mut self, names: Vec<String>) -> Result<usize, AppError> {
        tokio::task::yield_now().await;
        Ok(names.len())
    }
}

/// What is not `Send` may make the key, as long as the body does not keep it.
#[redlock(resource = "{CELL.with(|cell| cell.borrow().to_string())}", client = memory())]
async fn cell() -> Result<String, AppError> {
    tokio::task::yield_now().await;
    Ok(locked())
}

thread_local! {
    static CELL: RefCell<u8> = const { RefCell::new(5) };
}

#[redlock(resource = "{id}", client = memory())]
async fn generic<T: Display + Send>(id: T) -> Result<T, AppError> {
    tokio::task::yield_now().await;
    Ok(id)
}

/// What one hole borrows does not live while another one awaits.
#[redlock(resource = "{id}:{answer().await}", client = memory())]
async fn awaits<T: Display + Send>(id: T) -> Result<String, AppError> {
    drop(id);
    Ok(locked())
}

/// Whether `&T` is `Send` is not known here.
fn of_any_type<T: Display + Send>(id: T) -> impl Future<Output = Result<String, AppError>> + Send {
    awaits(id)
}

async fn answer() -> u8 {
    tokio::task::yield_now().await;
    42
}

fn send<T: Future + Send>(future: T) -> T {
    future
}

#[tokio::test]
async fn futures_stay_send() {
    let mut shop = Shop { locks: memory() };
    assert_eq!(send(shop.exclusive(vec![])).await.unwrap(), 0);
    assert_eq!(send(cell()).await.unwrap(), "5");
    assert_eq!(send(generic(5)).await.unwrap(), 5);
    assert_eq!(send(of_any_type("a")).await.unwrap(), "a:42");
    let shop = Arc::new(shop);
    let spawned = tokio::spawn(async move { shop.shared(&String::from("x")).await });
    assert_eq!(spawned.await.unwrap().unwrap(), "a:x");
}
