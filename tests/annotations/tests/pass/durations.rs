use crate::{AppError, memory};
use redlock_core::redlock;
use std::time::Duration;

#[redlock(
    resource = "a",
    client = memory(),
    ttl = "30s",
    wait = 2_000,
    retry_delay = 50u64,
    retry_jitter = "20ms",
    max_hold = "10m",
    min_hold = "0s"
)]
async fn words_and_milliseconds() -> Result<(), AppError> {
    Ok(())
}

const TTL: Duration = Duration::from_secs(20);

#[redlock(resource = "a", client = memory(), ttl = TTL, wait = Duration::ZERO, max_hold = "1h")]
async fn expressions() -> Result<(), AppError> {
    Ok(())
}

#[redlock(resource = "a", client = memory(), max_hold = "2 d", min_hold = TTL / 100)]
async fn arithmetic() -> Result<(), AppError> {
    Ok(())
}

#[tokio::test]
async fn every_way_to_write_a_duration() {
    words_and_milliseconds().await.unwrap();
    expressions().await.unwrap();
    arithmetic().await.unwrap();
}
