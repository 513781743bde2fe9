//! A process of its own for the tests that need one: to be killed, or to contend with others. It
//! ends when its standard input does, so that it never outlives its test.
//!
//! - `serve`: starts a redis-server, prints its address, and stays.
//! - `hold RESOURCE MIN_HOLD_MS URL..`: takes the lock, prints `held`, and stays.
//! - `work RESOURCE URL..`: works under the lock, prints `working`, and once the lock is lost
//!   `lost NANOSECONDS`: when, on the clock of histories, the body was polled last.
//! - `abort RESOURCE URL..`: takes the lock, prints `held`, and aborts once its input ends.
//! - `drop FLAVOR COUNT URL..`: takes so many locks on a runtime of this flavor, drops them and is at its end.
//! - `leave FLAVOR COUNT URL..`: the same with tasks, each of which holds a lock at the end.
//! - `outlive FLAVOR COUNT URL..`: the same with locks that are dropped after the runtime, of a client in a pool.
//! - `suspend RESOURCE URL..`: takes the lock, and prints whether it is valid before and after two hours
//!   that only the boot clock shows, as when the machine was asleep.
//! - `lead ROLE URL..`: campaigns, prints `campaigns`, `leads TOKEN` when a term begins and `lost` when
//!   it is lost, and resigns once its input ends.
//! - `adopt LEASE URL..`: adopts a lease that is written as JSON, prints `adopted TOKEN` or `refused`,
//!   and holds the lock until its input ends.
//! - `read RESOURCE URL..`: takes the lock as a reader, prints `held`, and stays.
//! - `permit COUNT RESOURCE URL..`: takes one of so many permits, prints `held`, and stays.
//! - `contend OWNER RESOURCE URL..`: takes and releases the lock, and prints each hold at the
//!   end.

use std::{
    convert::Infallible,
    fs::File,
    future::{Future, pending, poll_fn},
    io::{BufRead, BufReader},
    ops::ControlFlow,
    os::fd::AsFd,
    pin::pin,
    process::{Command, Stdio},
    time::Duration,
};

use redlock_core::{LockError, LockGuard, LockHandle, NodeHealth, Redlock, pools};
use redlock_tests::{
    Server,
    history::{self, History},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Builder;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut runtime = match words[..] {
        ["drop" | "leave" | "outlive", "multi_thread", ..] => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    // As `#[tokio::main]` does it.
    let runtime = runtime.enable_all().build().unwrap();
    if let ["outlive", _, count, ref urls @ ..] = words[..] {
        let guards = runtime.block_on(async {
            let (client, guards) = locks(count, urls).await;
            pools::install("default", client).unwrap();
            guards
        });
        drop(runtime);
        drop(guards);
    } else {
        runtime.block_on(run(&words));
    }
}

async fn run(words: &[&str]) {
    match *words {
        ["serve"] => {
            let server = Server::start();
            println!("{}", server.address());
            stay().await;
        }
        ["hold", resource, min_hold, ref urls @ ..] => {
            let min_hold = Duration::from_millis(min_hold.parse().unwrap());
            let request = client(urls).lock(resource).min_hold(min_hold);
            let _guard = request.await.unwrap();
            println!("held");
            stay().await;
        }
        ["work", resource, ref urls @ ..] => work(&client(urls), resource).await,
        ["abort", resource, ref urls @ ..] => {
            let body = async |_: &LockHandle| {
                println!("held");
                stay().await;
                std::process::abort();
            };
            client(urls).lock(resource).run(body).await.unwrap();
        }
        [end @ ("drop" | "leave"), _, count, ref urls @ ..] => {
            let (_client, mut guards) = locks(count, urls).await;
            if end == "leave" {
                for guard in guards.drain(..) {
                    tokio::spawn(async move {
                        pending::<()>().await;
                        drop(guard);
                    });
                }
            }
            drop(guards);
        }
        ["suspend", resource, ref urls @ ..] => {
            let hour = Duration::from_secs(3600);
            let client = builder(urls).max_ttl(hour).ttl(hour).build().unwrap();
            let guard = client.lock(resource).auto_extend(false).await.unwrap();
            let before = guard.is_valid();
            sleep_by_the_boot_clock();
            println!("{before} {}", guard.is_valid());
        }
        ["adopt", lease, ref urls @ ..] => {
            let adopted = client(urls).adopt(serde_json::from_str(lease).unwrap()).await;
            match &adopted {
                Ok(guard) => println!("adopted {}", guard.fencing_token().unwrap()),
                Err(error) => {
                    assert!(error.is_lost(), "{error}");
                    println!("refused");
                }
            }
            stay().await;
        }
        ["read", resource, ref urls @ ..] => {
            let _guard = client(urls).lock(resource).shared().await.unwrap();
            println!("held");
            stay().await;
        }
        ["permit", count, resource, ref urls @ ..] => {
            let count = count.parse().unwrap();
            let _guard = client(urls).lock(resource).permits(count).await.unwrap();
            println!("held");
            stay().await;
        }
        ["lead", role, ref urls @ ..] => lead(role, &client(urls)).await,
        ["contend", owner, resource, ref urls @ ..] => {
            contend(owner, resource, &client(urls)).await;
        }
        _ => panic!("unknown arguments: {words:?}"),
    }
}

/// Moves this process, which has a single thread, to where the boot clock is two hours ahead.
fn sleep_by_the_boot_clock() {
    let mut there = Command::new("unshare")
        .args(["--time", "--boottime", "7200", "--fork", "sh", "-c", "echo $$; read -r _"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    BufReader::new(there.stdout.take().unwrap()).read_line(&mut id).unwrap();
    let namespace = File::open(format!("/proc/{}/ns/time", id.trim())).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Time)).unwrap();
    drop(there.stdin.take());
    there.wait().unwrap();
}

/// A client, and so many of its locks.
async fn locks(count: &str, urls: &[&str]) -> (Redlock, Vec<LockGuard>) {
    // Longer than any test waits: the key must not go by itself.
    let hour = Duration::from_secs(3600);
    let client = builder(urls).max_ttl(hour).ttl(hour).build().unwrap();
    let mut guards = Vec::new();
    for number in 0..count.parse().unwrap() {
        guards.push(client.lock(format!("job-{number}")).await.unwrap());
    }
    // Every node has answered what it was asked before.
    assert!(client.health().await.iter().all(NodeHealth::is_up));
    (client, guards)
}

/// Returns when standard input ends.
async fn stay() {
    let mut input = tokio::io::stdin();
    let _ = tokio::io::copy(&mut input, &mut tokio::io::sink()).await;
}

/// Patient with nodes on a busy machine, and with a short ttl, so that what is left behind by a
/// fault does not outlast the test.
fn client(urls: &[&str]) -> Redlock {
    builder(urls).build().unwrap()
}

fn builder(urls: &[&str]) -> redlock_core::Builder {
    Redlock::builder()
        .nodes(urls.iter().copied())
        .node_timeout(Duration::from_secs(1))
        .ttl(Duration::from_secs(5))
        .retry_delay(Duration::from_millis(5))
        .retry_jitter(Duration::from_millis(20))
}

async fn work(client: &Redlock, resource: &str) {
    let mut polled = Duration::ZERO;
    let body = async |_: &LockHandle| {
        let mut endless = pin!(async {
            println!("working");
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        poll_fn(|context| {
            polled = history::now();
            endless.as_mut().poll(context)
        })
        .await
    };
    let error = client.lock(resource).run::<(), _>(body).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    println!("lost {}", polled.as_nanos());
}

async fn lead(role: &str, client: &Redlock) {
    struct Term;
    impl Drop for Term {
        fn drop(&mut self) {
            println!("lost");
        }
    }
    println!("campaigns");
    let led = client.lead(role).run::<Infallible, _, _>(|term| async move {
        println!("leads {}", term.fencing_token().unwrap());
        let term = Term;
        pending::<()>().await;
        drop(term);
        ControlFlow::Continue(())
    });
    let resign = async {
        stay().await;
        client.shutdown(Duration::ZERO).await;
    };
    let (led, ()) = tokio::join!(led, resign);
    assert!(matches!(led, Err(LockError::ShuttingDown { .. })), "{led:?}");
}

async fn contend(owner: &str, resource: &str, client: &Redlock) {
    let mut stay = std::pin::pin!(stay());
    let history = History::new();
    while tokio::time::timeout(Duration::ZERO, &mut stay).await.is_err() {
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
