use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::time::Duration;

pub(crate) struct Settings {
    ttl: Duration,
    tries: u32,
    renew: bool,
}

#[redlock(
    resource = "job:{name}",
    client = memory(),
    ttl = settings.ttl,
    wait = settings.ttl.saturating_mul(2),
    retry_count = settings.tries,
    retry_delay = Duration::from_millis(u64::from(settings.tries)),
    retry_jitter = 0,
    clock_drift_factor = if settings.renew { 0.01 } else { 0.02 },
    auto_extend = settings.renew
)]
async fn job(name: String, settings: Settings) -> Result<String, AppError> {
    let Settings { tries, .. } = settings;
    Ok(format!("{name} {tries} {}", locked()))
}

#[redlock(resource = "a", client = memory(), retry_count = 0, clock_drift_factor = 0, auto_extend = false)]
async fn zeros() -> Result<(), AppError> {
    Ok(())
}

struct Seconds(u64);

impl From<Seconds> for Duration {
    fn from(Seconds(seconds): Seconds) -> Self {
        Self::from_secs(seconds)
    }
}

#[redlock(
    resource = "a",
    client = memory(),
    ttl = Seconds(seconds).into(),
    wait = Option::unwrap_or_default(wait),
    max_hold = if wait.is_none() { Duration::MAX } else { Default::default() }
)]
async fn inferred(seconds: u64, wait: Option<Duration>) -> Result<(), AppError> {
    Ok(())
}

#[tokio::test]
async fn settings_are_expressions_over_the_arguments() {
    let settings = Settings { ttl: Duration::from_secs(5), tries: 2, renew: true };
    assert_eq!(job("x".into(), settings).await.unwrap(), "x 2 job:x");
    zeros().await.unwrap();
    inferred(5, None).await.unwrap();
}
