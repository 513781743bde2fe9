//! The permissions that docs/servers.md lists: each line is enough for what it says, and no word of it
//! can be left out.

use std::{
    collections::BTreeSet,
    fs,
    future::IntoFuture,
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::{join, join_all};
use redlock_core::{Node, Redlock};
use redlock_tests::{Cluster, LIMIT, MASTER, Sentinels, Server, packages, patient, wait_until};
use tokio::runtime::Builder;

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/servers.md");
    fs::read_to_string(page).unwrap()
}

/// The words of the line of this name: `| name | `+a +b` | .. |`.
fn line(name: &str) -> Vec<String> {
    let page = page();
    let row = page.lines().find(|it| it.starts_with(&format!("| {name} | `")));
    let row = row.unwrap_or_else(|| panic!("no line {name:?}"));
    let words = row.split('`').nth(1).unwrap();
    // A bar in a cell is written with a backslash.
    words.replace("\\|", "|").split(' ').map(str::to_owned).collect()
}

fn lines(names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|it| line(it)).collect()
}

/// What the user to copy may do.
fn to_copy() -> Vec<String> {
    let page = page();
    let (_, rest) = page.split_once("ACL SETUSER ").unwrap();
    let (user, _) = rest.split_once("```").unwrap();
    user.split_whitespace().filter(|it| it.starts_with('+')).map(str::to_owned).collect()
}

/// A user with these permissions, and its URL.
fn user(server: &Server, name: &str, words: &[String]) -> String {
    let rules = ["ACL", "SETUSER", name, "on", ">p", "~redlock:*", "resetchannels", "-@all"];
    let words = words.iter().map(String::as_str);
    server.command(&rules.into_iter().chain(words).collect::<Vec<_>>());
    format!("redis://{name}:p@{}", server.address())
}

fn client(node: impl Into<Node>) -> redlock_core::Builder {
    patient([node]).retry_delay(4 * LIMIT).wait(4 * LIMIT)
}

/// How often the whole line is tried, because a busy machine may be too slow for [`SOON`]. Tries in which a
/// user that may do everything is too slow as well say nothing.
const TRIES: usize = 10;

/// How long tries may go on that say nothing.
const MOST: Duration = Duration::from_secs(300);

/// How long a client that lacks something is given to do it all the same.
const SOON: Duration = Duration::from_secs(3);

type Outcome = Result<(), String>;

async fn soon<T>(future: impl IntoFuture<Output = T>) -> Result<T, String> {
    tokio::time::timeout(SOON, future.into_future()).await.map_err(|_| "too slow".to_owned())
}

/// Locking, renewing and releasing, with an identity that is known.
async fn plain(node: Node, resource: &str) -> Outcome {
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
async fn woken(server: &Server, url: String, user: &str) -> Outcome {
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
async fn in_turn(server: &Server, url: String, resource: &str) -> Outcome {
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

async fn fenced(node: Node, resource: &str) -> Outcome {
    let redlock = client(node).build().unwrap();
    let locked = soon(redlock.try_lock(resource).fenced()).await?;
    locked.map(drop).map_err(|error| error.to_string())
}

/// A set of locks, which is renewed and released.
async fn set(node: Node, resource: &str) -> Outcome {
    let redlock = client(node).build().unwrap();
    let text = |error: redlock_core::LockError| error.to_string();
    let resources = ["1", "2"].map(|it| format!("{resource}:{it}"));
    let guard = soon(redlock.lock_all(resources).wait(Duration::ZERO)).await?.map_err(text)?;
    soon(guard.extend(Duration::from_secs(45))).await?.map_err(text)?;
    soon(guard.release()).await?.map(drop).map_err(text)
}

/// Two readers of one lock, which renew it and let a writer in when they have gone.
async fn read(server: &Server, url: String, resource: &str) -> Outcome {
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
async fn permits(url: String, resource: &str) -> Outcome {
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

/// The line is enough, and no word of `needed` can be left out of it.
async fn is_minimal<F: Future<Output = Outcome>>(
    server: &Server,
    all: &[String],
    needed: &[String],
    use_it: impl Fn(String, String) -> F,
) {
    let (begun, mut tries) = (Instant::now(), 0);
    for number in 1.. {
        let try_as = |name: &str, words: &[String]| {
            let name = format!("{name}-{number}");
            use_it(user(server, &name, words), name)
        };
        let everything = ["+@all".to_owned()];
        let (whole, possible) = join(try_as("whole", all), try_as("root", &everything)).await;
        let Err(error) = whole else { break };
        tries += usize::from(possible.is_ok());
        assert!(tries < TRIES && begun.elapsed() < MOST, "{all:?}: {error}, {possible:?}");
    }
    let without = (0..).zip(needed).map(|(number, word)| {
        let rest: Vec<_> = all.iter().filter(|it| *it != word).cloned().collect();
        let name = format!("user-{number}");
        let url = user(server, &name, &rest);
        let used = use_it(url, name);
        async move { used.await.is_ok().then_some(word) }
    });
    let useless: Vec<_> = join_all(without).await.into_iter().flatten().collect();
    assert!(useless.is_empty(), "not needed: {useless:?}");
}

/// For lines that one test tries a few times. A busy machine may be too slow for [`SOON`].
async fn works<F: Future<Output = Outcome>>(mut try_it: impl FnMut() -> F) {
    let begun = Instant::now();
    while let Err(error) = try_it().await {
        assert!(begun.elapsed() < MOST, "{error}");
    }
}

#[tokio::test]
async fn locks_need_this_and_nothing_else() {
    let server = Server::start();
    let all = line("lock, renew, release");
    is_minimal(&server, &all, &all, |url, name| async move { plain(url.into(), &name).await })
        .await;
}

#[tokio::test]
async fn being_woken_needs_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "be woken"]);
    is_minimal(server, &all, &line("be woken"), |url, name| async move {
        woken(server, url, &name).await
    })
    .await;
}

#[tokio::test]
async fn waiting_in_turn_needs_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "be woken", "wait in turn"]);
    // Without ZRANK or EXISTS, an entry may be made of which its waiter does not know. Without MGET, a
    // waiter is not pushed its turn, and looks for itself. Both are slower, which no test should measure.
    let late = ["+zrank", "+exists", "+mget"];
    let needed = line("wait in turn").into_iter().filter(|it| !late.contains(&&**it));
    let needed: Vec<_> = needed.collect();
    is_minimal(server, &all, &needed, |url, name| async move { in_turn(server, url, &name).await })
        .await;
}

#[tokio::test]
async fn fencing_tokens_need_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "fencing tokens"]);
    is_minimal(server, &all, &line("fencing tokens"), |url, name| async move {
        fenced(url.into(), &name).await
    })
    .await;
}

#[tokio::test]
async fn sets_need_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "sets"]);
    is_minimal(
        server,
        &all,
        &line("sets"),
        |url, name| async move { set(url.into(), &name).await },
    )
    .await;
}

#[tokio::test]
async fn readers_need_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "readers"]);
    is_minimal(server, &all, &line("readers"), |url, name| async move {
        read(server, url, &name).await
    })
    .await;
}

#[tokio::test]
async fn replicas_need_this_in_addition() {
    let server = &Server::start();
    let replica = Server::builder().replica_of(server).start();
    wait_until("the replica is in step", async || server.replicas_in_step() == 1).await;
    let all = lines(&["lock, renew, release", "replicas(n)"]);
    is_minimal(server, &all, &line("replicas(n)"), |url, name| async move {
        plain(Node::new(url).replicas(1), &name).await
    })
    .await;
    drop(replica);
}

#[tokio::test]
async fn another_database_needs_this_in_addition() {
    let server = &Server::start();
    let all = lines(&["lock, renew, release", "another database"]);
    is_minimal(server, &all, &line("another database"), |url, name| async move {
        plain(format!("{url}/3").into(), &name).await
    })
    .await;
}

#[tokio::test]
async fn native_commands_need_this_instead_of_scripts() {
    let test = "native_commands_need_this_instead_of_scripts";
    let Some(program) = packages::valkey(test) else { return };
    let server = &Server::builder().program(program).start();
    let all = line("without scripts");
    is_minimal(server, &all, &all, |url, name| async move { plain(url.into(), &name).await }).await;
}

#[tokio::test]
async fn a_cluster_needs_this_in_addition() {
    let cluster = Cluster::start(false);
    let all = lines(&["lock, renew, release", "cluster"]);
    for words in [&all, &lines(&["lock, renew, release"])] {
        let urls: Vec<_> = cluster.masters.iter().map(|it| user(it, "locks", words)).collect();
        let try_it = || plain(Node::cluster(urls.clone()), "r");
        if words.len() == all.len() {
            works(try_it).await;
        } else {
            try_it().await.expect_err("less is enough");
        }
    }
}

#[tokio::test]
async fn sentinels_need_a_user_with_this() {
    let sentinels = Sentinels::start(0, None, None);
    let rules = ["ACL", "SETUSER", "watch", "on", ">p", "-@all"];
    let words = line("a sentinel's own user");
    for left_out in [None, Some(&words[0]), Some(&words[1])] {
        let words = words.iter().filter(|it| Some(*it) != left_out).map(String::as_str);
        sentinels.tell(&["ACL", "DELUSER", "watch"]);
        sentinels.tell(&rules.into_iter().chain(words).collect::<Vec<_>>());
        let try_it = || {
            let watch = || async { Ok(redlock_core::Credentials::new("watch", "p")) };
            let node = Node::sentinel(MASTER, sentinels.urls()).sentinel_credentials(watch);
            plain(node, "r")
        };
        match left_out {
            None => works(try_it).await,
            Some(word) => drop(try_it().await.expect_err(word)),
        }
    }
}

/// A guard in a task that ends with its runtime. Its delete is the last command.
async fn left(server: &Server, url: String, resource: &str) -> Outcome {
    let key = format!("redlock:{resource}");
    let (redlock, resource) = (client(url).build().unwrap(), resource.to_owned());
    let leave = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
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
async fn everything(server: &Server, url: String, name: &str) -> Outcome {
    let url = || url.clone();
    plain(url().into(), &format!("{name}-plain")).await?;
    in_turn(server, url(), &format!("{name}-turn")).await?;
    fenced(url().into(), &format!("{name}-fenced")).await?;
    set(url().into(), &format!("{name}-set")).await?;
    permits(url(), &format!("{name}-permits")).await?;
    left(server, url(), &format!("{name}-left")).await?;
    read(server, url(), &format!("{name}-readers")).await
}

/// The users that the server has refused something, as its log has them.
fn refused(server: &Server) -> String {
    format!("{:?}", server.command(&["ACL", "LOG", "1000"]))
}

#[tokio::test]
async fn the_user_to_copy_may_do_all_that_locks_of_every_kind_do_and_no_more() {
    let server = &Server::start();
    server.command(&["CONFIG", "SET", "acllog-max-len", "1000"]);
    let whole = to_copy();
    let rows = ["lock, renew, release", "be woken", "wait in turn", "fencing tokens", "sets"];
    let rows = [lines(&rows), lines(&["permits", "readers", "end of a runtime"])].concat();
    let sorted = |words: &[String]| words.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&whole), sorted(&rows), "the user to copy, and the rows");
    works(|| everything(server, user(server, "whole", &whole), "whole")).await;
    assert!(!refused(server).contains("whole"), "{}", refused(server));
    let without = (0..).zip(&whole).map(|(number, word)| {
        let rest: Vec<_> = whole.iter().filter(|it| *it != word).cloned().collect();
        let name = format!("user-{number}-");
        let url = user(server, &name, &rest);
        async move {
            // It may work all the same, at a slower pace.
            let _ = everything(server, url, &name).await;
            (!refused(server).contains(&name)).then_some(word)
        }
    });
    let useless: Vec<_> = join_all(without).await.into_iter().flatten().collect();
    assert!(useless.is_empty(), "not needed: {useless:?}");
}
