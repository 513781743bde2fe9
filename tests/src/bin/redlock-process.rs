//! A process of its own for the tests that need one: to be killed, or to contend with others.
//!
//! - `serve`: starts a redis-server, prints its address, and stays.
//! - `hold RESOURCE MIN_HOLD_MS URL..`: takes the lock, prints `held`, and stays.
//! - `contend OWNER RESOURCE ROUNDS URL..`: takes and releases the lock that often, printing each
//!   hold.

use std::time::Duration;

use redlock_core::{LockError, Redlock};
use redlock_tests::{Server, history::History};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => {
            let server = Server::start();
            println!("{}", server.address());
            std::future::pending::<()>().await;
        }
        ["hold", resource, min_hold, ref urls @ ..] => {
            let min_hold = Duration::from_millis(min_hold.parse().unwrap());
            let request = client(urls).lock(resource).min_hold(min_hold);
            let _guard = request.await.unwrap();
            println!("held");
            std::future::pending::<()>().await;
        }
        ["contend", owner, resource, rounds, ref urls @ ..] => {
            contend(owner, resource, rounds.parse().unwrap(), &client(urls)).await;
        }
        _ => panic!("unknown arguments: {words:?}"),
    }
}

/// Patient with nodes on a busy machine, and with a short ttl, so that what is left behind by a
/// fault does not outlast the test.
fn client(urls: &[&str]) -> Redlock {
    Redlock::builder()
        .nodes(urls.iter().copied())
        .node_timeout(Duration::from_millis(500))
        .ttl(Duration::from_secs(2))
        .retry_delay(Duration::from_millis(5))
        .retry_jitter(Duration::from_millis(20))
        .build()
        .unwrap()
}

async fn contend(owner: &str, resource: &str, rounds: usize, client: &Redlock) {
    let history = History::new();
    for _ in 0..rounds {
        match client.lock(resource).await {
            Ok(guard) => {
                let mut recording = history.begin(resource, owner);
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    recording.confirm(|| guard.is_valid());
                }
                drop(recording);
                // What the nodes say to the release does not matter here: nodes are disturbed.
                let _ = guard.release().await;
            }
            // Expected while nodes are disturbed and others want the lock too.
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    for hold in history.holds() {
        println!("{hold}");
    }
}
