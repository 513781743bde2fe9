//! What users of a server do with locks, each of its own kind.

use std::{future::IntoFuture, time::Duration};

use redlock_core::{Builder, Node, Redlock, Released};
use redlock_tests::{LIMIT, Server, patient, wait_until};
use tokio::runtime;

fn client(node: impl Into<Node>) -> Builder {
    patient([node]).retry_delay(4 * LIMIT).wait(4 * LIMIT)
}

/// How long a client that lacks something is given to do it all the same.
pub(crate) const SOON: Duration = Duration::from_secs(3);

pub(crate) type Outcome = Result<(), String>;

async fn soon<T>(future: impl IntoFuture<Output = T>) -> Result<T, String> {
    tokio::time::timeout(SOON, future.into_future()).await.map_err(|_| "too slow".to_owned())
}

/// Locking, renewing and releasing, with an identity that is known.
pub(crate) async fn plain(node: Node, resource: &str) -> Outcome {
    let redlock = client(node).build().unwrap();
    let text = |error: redlock_core::LockError| error.to_string();
    let guard = soon(redlock.try_lock(resource)).await?.map_err(text)?;
    soon(guard.extend(Duration::from_secs(45))).await?.map_err(text)?;
    soon(guard.release()).await?.map_err(text)?;
    let health = soon(redlock.health()).await?.remove(0);
    if let Some(advice) = health.advice.first() {
        return Err(advice.to_string());
    }
    if health.is_up() { Ok(()) } else { Err(format!("{:?}", health.state)) }
}

/// A waiter is woken by a release that knows no queue.
pub(crate) async fn woken(server: &Server, url: String, user: &str) -> Outcome {
    let resource = user;
    let key = format!("redlock:{resource}");
    server.command(&["SET", &key, "theirs"]);
    let waiter = client(url).build().unwrap();
    let resource = resource.to_owned();
    let waiting = tokio::spawn(async move { waiter.lock(resource).await.map(drop) });
    // The waiter was refused, and now waits without asking. Otherwise a client that lacks a permission
    // could get the lock by its first attempt.
    let of_user = format!(" user={user} ");
    wait_until("the waiter rests", async || {
        let clients = server.clients();
        let line = clients.iter().find(|it| it.contains(&of_user));
        line.is_some_and(|it| {
            let value = |name: &str| it.split(' ').find_map(|it| it.strip_prefix(name));
            let asked =
                !matches!(value("cmd="), Some("hello" | "info" | "client|setname" | "NULL"));
            // Seconds begun: after one of them the last command may be a moment old.
            asked && value("idle=").is_some_and(|it| it != "0" && it != "1")
        })
    })
    .await;
    server.command(&["DEL", &key]);
    soon(waiting).await?.unwrap().map_err(|error| error.to_string())
}

/// Two waiters stand in a queue, and get their turns.
pub(crate) async fn in_turn(server: &Server, url: String, resource: &str) -> Outcome {
    let client = || client(url.clone()).build().unwrap();
    let (holder, waiters) = (client(), [client(), client()]);
    let text = |error: redlock_core::LockError| error.to_string();
    let guard = soon(holder.try_lock(resource)).await?.map_err(text)?;
    let queue = format!("redlock:{resource}:{{redlock:{resource}}}:queue");
    let mut waiting = Vec::new();
    for (number, waiter) in (1..).zip(waiters) {
        let resource = resource.to_owned();
        waiting.push(tokio::spawn(async move { waiter.lock(resource).await.map(drop) }));
        soon(async {
            while server.command(&["ZCARD", &queue]) != redis::Value::Int(number) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await?;
    }
    soon(guard.release()).await?.map_err(text)?;
    for it in waiting {
        soon(it).await?.unwrap().map_err(text)?;
    }
    Ok(())
}

/// A holder that may not give the turn to a waiter releases its lock all the same.
pub(crate) async fn gives_no_turn(
    server: &Server,
    url: String,
    waits: String,
    resource: String,
) -> Outcome {
    let (holder, waiter) = (client(url).build().unwrap(), client(waits).build().unwrap());
    let text = |error: redlock_core::LockError| error.to_string();
    let guard = soon(holder.try_lock(&*resource)).await?.map_err(text)?;
    let queue = format!("redlock:{resource}:{{redlock:{resource}}}:queue");
    let waiting = tokio::spawn(async move { waiter.lock(resource).await.map(drop) });
    wait_until("it waits in the queue", async || {
        server.command(&["ZCARD", &queue]) == redis::Value::Int(1)
    })
    .await;
    let released = soon(guard.release()).await?.map_err(text)?;
    assert_eq!(released, Released::Ours);
    // It looks for itself.
    waiting.await.unwrap().map_err(text)
}

pub(crate) async fn fenced(node: Node, resource: &str) -> Outcome {
    let redlock = client(node).build().unwrap();
    let locked = soon(redlock.try_lock(resource).fenced()).await?;
    locked.map(drop).map_err(|error| error.to_string())
}

/// A set of locks, which is renewed and released.
pub(crate) async fn set(node: Node, resource: &str) -> Outcome {
    let redlock = client(node).build().unwrap();
    let text = |error: redlock_core::LockError| error.to_string();
    let resources = ["1", "2"].map(|it| format!("{resource}:{it}"));
    let guard = soon(redlock.lock_all(resources).wait(Duration::ZERO)).await?.map_err(text)?;
    soon(guard.extend(Duration::from_secs(45))).await?.map_err(text)?;
    soon(guard.release()).await?.map(drop).map_err(text)
}

/// Two readers of one lock, which renew it and let a writer in when they have gone.
pub(crate) async fn read(server: &Server, url: String, resource: &str) -> Outcome {
    let (redlock, other) = (client(url.clone()).build().unwrap(), client(url).build().unwrap());
    let text = |error: redlock_core::LockError| error.to_string();
    // A reader that has expired is in the way of no client. Without a command to remove it, it would be.
    let key = format!("redlock:{resource}");
    server.command(&["ZADD", &key, "1", "gone"]);
    let guard = soon(redlock.try_lock(resource).shared()).await?.map_err(text)?;
    let beside = soon(other.try_lock(resource).shared()).await?.map_err(text)?;
    soon(guard.extend(Duration::from_secs(45))).await?.map_err(text)?;
    for guard in [guard, beside] {
        soon(guard.release()).await?.map_err(text)?;
    }
    soon(redlock.try_lock(resource)).await?.map(drop).map_err(text)
}

/// Three clients want one of two permits.
pub(crate) async fn permits(url: String, resource: &str) -> Outcome {
    let text = |error: redlock_core::LockError| error.to_string();
    let clients = [(); 3].map(|()| client(url.clone()).build().unwrap());
    let permit = |client: &Redlock| client.lock(resource).permits(2).into_future();
    let (first, second) = (permit(&clients[0]), permit(&clients[1]));
    let held = [soon(first).await?.map_err(text)?, soon(second).await?.map_err(text)?];
    let third = tokio::spawn(permit(&clients[2]));
    soon(async {
        while clients[2].waiting().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await?;
    for guard in held {
        soon(guard.release()).await?.map_err(text)?;
    }
    soon(third).await?.unwrap().map(drop).map_err(text)
}

/// A guard in a task that ends with its runtime. Its delete is the last command.
pub(crate) async fn left(server: &Server, url: String, resource: &str) -> Outcome {
    let key = format!("redlock:{resource}");
    let (redlock, resource) = (client(url).build().unwrap(), resource.to_owned());
    let leave = move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let guard = redlock.try_lock(resource).await.map_err(|error| error.to_string())?;
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(guard);
            });
            Ok::<_, String>(())
        })
    };
    soon(tokio::task::spawn_blocking(leave)).await?.unwrap()?;
    soon(async {
        while server.command(&["EXISTS", &key]) != redis::Value::Int(0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Locks of every kind, as this user.
pub(crate) async fn everything(server: &Server, url: String, name: &str) -> Outcome {
    let url = || url.clone();
    plain(url().into(), &format!("{name}-plain")).await?;
    in_turn(server, url(), &format!("{name}-turn")).await?;
    fenced(url().into(), &format!("{name}-fenced")).await?;
    set(url().into(), &format!("{name}-set")).await?;
    permits(url(), &format!("{name}-permits")).await?;
    left(server, url(), &format!("{name}-left")).await?;
    read(server, url(), &format!("{name}-readers")).await
}
