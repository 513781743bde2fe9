//! The annotation of redlock-hyperf, parameter by parameter. What in PHP reads
//!
//! ```php
//! /**
//!  * @RedLockAnnotation(resource="redlock-hyperf-test", poolName={"default"}, retryCount=5,
//!  *     retryDelay=200, clockDriftFactor=0.01, ttl=60000)
//!  */
//! public function test() { .. }
//! ```
//!
//! is the attribute below. `poolName` lists the Redis servers that are the nodes: each is a pool
//! here too, and `pools` asks for a quorum over all of them. Times are milliseconds in both. What
//! the annotation does not have is beside it: a key made of the arguments, and what to do with a
//! refusal.
//!
//! `REDLOCK_NODES=redis://..` runs it on one server, and with three it also locks on all of them.

use std::{error::Error, time::Duration};

use redlock_core::{LockError, Redlock, pools, redlock};

/// `resource`: any text, or a template over the arguments. `poolName`: `pools`. `retryCount` counts
/// attempts in PHP and retries here: one less. `retryDelay` is the longest pause in PHP, and half of
/// it the shortest: for the same pauses, write half of it as `retry_delay` and as `retry_jitter`.
/// `clockDriftFactor` and `ttl` are themselves.
#[redlock(
    resource = "redlock-hyperf-test",
    pools = ["default"],
    retry_count = 4,
    retry_delay = 200,
    clock_drift_factor = 0.01,
    ttl = 60000,
)]
async fn test() -> Result<&'static str, LockError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok("done")
}

/// `poolName={"redis-a", "redis-b", "redis-c"}`: two of the three servers have to agree.
#[redlock(resource = "redlock-hyperf-test", pools = ["redis-a", "redis-b", "redis-c"], ttl = 60000)]
async fn on_three() -> Result<&'static str, LockError> {
    Ok("done")
}

/// As `setRedisPoolName()->setRetryCount(1)->lock('order:7', 60000)` in the PHP code, with the
/// default pool, and with the order's number in the key.
#[redlock(resource = "order:{order}", retry_count = 0, ttl = 60000)]
async fn pay(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // `config/autoload/redis.php`: one pool a server.
    let names = ["redis-a", "redis-b", "redis-c"];
    let servers: Vec<Redlock> = match std::env::var("REDLOCK_NODES") {
        Ok(nodes) => {
            let one = |node: &str| Redlock::builder().nodes([node.trim()]).build();
            nodes.split(',').map(one).collect::<Result<_, _>>()?
        }
        Err(_) => names.iter().map(|_| Redlock::in_memory(1)).collect(),
    };
    let installed = &names[..servers.len().min(names.len())];
    for (name, server) in installed.iter().zip(servers) {
        pools::install(*name, server)?;
    }
    pools::install("default", pools::quorum_of(installed)?)?;

    println!("test() alone: {}", test().await?);
    let (first, second) = tokio::join!(test(), test());
    println!("twice at once, one after the other: {}, {}", first?, second?);

    if installed.len() == names.len() {
        println!("on three servers: {}", on_three().await?);
    }

    let guard = pools::quorum_of(installed)?.lock("order:7").await?;
    match pay(7).await {
        Ok(order) => println!("order {order} was paid"),
        Err(refused) => println!("pay(7) while it is locked: {refused}"),
    }
    guard.release().await?;
    println!("pay(7) afterwards: order {} is paid", pay(7).await?);
    pools::shutdown(Duration::from_secs(1)).await;
    Ok(())
}
