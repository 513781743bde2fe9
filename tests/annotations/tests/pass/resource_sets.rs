use crate::{AppError, memory};
use redlock_core::{LockHandle, redlock};

struct Transfer {
    from: u64,
    to: u64,
}

#[redlock(resources = ["account:{from}", "account:{to}"], client = memory(), lock = held)]
async fn transfer(from: u64, to: u64) -> Result<Vec<String>, AppError> {
    Ok(named(&held))
}

#[redlock(
    resources = ["account:{transfer.from}", key_of(transfer.to), "bank"],
    client = memory(),
    lock = held,
)]
async fn book(transfer: &Transfer) -> Result<Vec<String>, AppError> {
    Ok(named(&held))
}

#[redlock(
    resources = accounts.iter().map(|it| key_of(*it)),
    client = memory(),
    lock = held,
)]
async fn close(accounts: Vec<u64>) -> Result<Vec<String>, AppError> {
    Ok(named(&held))
}

#[redlock(resources = ["account:{from}"], fenced, client = memory(), lock = held)]
async fn one(from: u64) -> Result<Vec<String>, AppError> {
    assert!(held.fencing_token().is_some());
    Ok(named(&held))
}

fn key_of(account: u64) -> String {
    format!("account:{account}")
}

fn named(held: &LockHandle) -> Vec<String> {
    held.resources().to_vec()
}

#[tokio::test]
async fn all_resources_are_locked_and_each_once() {
    assert_eq!(transfer(2, 1).await.unwrap(), ["account:2", "account:1"]);
    assert_eq!(transfer(1, 1).await.unwrap(), ["account:1"]);
    let booked = book(&Transfer { from: 7, to: 3 }).await.unwrap();
    assert_eq!(booked, ["account:7", "account:3", "bank"]);
    assert_eq!(close(vec![3, 1, 2]).await.unwrap(), ["account:3", "account:1", "account:2"]);
    assert!(close(Vec::new()).await.is_err());
    assert_eq!(one(4).await.unwrap(), ["account:4"]);
}
