//! The permissions that docs/servers.md lists: each line is enough for what it says, and no word of it
//! can be left out.

mod uses;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::{join, join_all};
use redlock_core::Node;
use redlock_tests::{Cluster, MASTER, Sentinels, Server, packages, wait_until};

use self::uses::{Outcome, everything, fenced, gives_no_turn, in_turn, plain, read, set, woken};

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

/// How often the whole line is tried, because a busy machine may be too slow for [`uses::SOON`]. Tries in which a
/// user that may do everything is too slow as well say nothing.
const TRIES: usize = 10;

/// How long tries may go on that say nothing.
const MOST: Duration = Duration::from_secs(300);

/// The line is enough, and no word of `needed` can be left out of it.
async fn is_minimal<F: Future<Output = Outcome>>(
    server: &Server,
    all: &[String],
    needed: &[String],
    use_it: impl Fn(String, String) -> F,
) {
    server.command(&["CONFIG", "SET", "acllog-max-len", "1000"]);
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
    let (server, use_it) = (&server, &use_it);
    let without = (0..).zip(needed).map(|(number, word)| {
        let rest: Vec<_> = all.iter().filter(|it| *it != word).cloned().collect();
        async move {
            let mut tries = 0;
            let lacks = is_too_little(|| {
                tries += 1;
                let name = format!("user-{number}-{tries}-");
                let used = use_it(user(server, &name, &rest), name.clone());
                async move { used.await.map_err(|error| (error, refused(server).contains(&name))) }
            });
            (!lacks.await).then_some(word)
        }
    });
    let useless: Vec<_> = join_all(without).await.into_iter().flatten().collect();
    assert!(useless.is_empty(), "not needed: {useless:?}");
}

/// Whether a user with less cannot do it all: a try fails, and the server has refused something. A try that fails
/// otherwise says nothing, because a busy machine may be too slow for [`uses::SOON`].
async fn is_too_little<F>(mut try_it: impl FnMut() -> F) -> bool
where
    F: Future<Output = Result<(), (String, bool)>>,
{
    let begun = Instant::now();
    loop {
        match try_it().await {
            Ok(()) => return false,
            Err((_, true)) => return true,
            Err((error, false)) => {
                assert!(begun.elapsed() < MOST, "nothing was refused: {error}");
            }
        }
    }
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
    // Without ZRANK or EXISTS, an entry may be made of which its waiter does not know. Without MGET or ZREM, a
    // waiter is not given its turn, and looks for itself. Both are slower, which no test should measure.
    let late = ["+zrank", "+exists", "+mget", "+zrem"];
    let needed = line("wait in turn").into_iter().filter(|it| !late.contains(&&**it));
    let needed: Vec<_> = needed.collect();
    is_minimal(server, &all, &needed, |url, name| async move { in_turn(server, url, &name).await })
        .await;
}

/// The script of the release has deleted the lock when it finds out.
#[tokio::test]
async fn a_release_that_may_not_give_the_turn_succeeds() {
    let server = &Server::start();
    let words = [line("lock, renew, release"), lines(&["be woken"]), vec!["+zrange".to_owned()]];
    let holder = user(server, "holder", &words.concat());
    let waiter = user(server, "waiter", &["+@all".to_owned()]);
    let mut tries = 0;
    works(|| {
        tries += 1;
        gives_no_turn(server, holder.clone(), waiter.clone(), format!("r{tries}"))
    })
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
            cluster.masters.iter().for_each(|it| drop(it.command(&["ACL", "LOG", "RESET"])));
        } else {
            let lacks = is_too_little(async || {
                try_it().await.map_err(|error| {
                    let refuses = |it: &Server| refused(it).contains("locks");
                    (error, cluster.masters.iter().any(refuses))
                })
            });
            assert!(lacks.await, "less is enough");
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
        sentinels.tell(&["ACL", "LOG", "RESET"]);
        let try_it = || {
            let watch = || async { Ok(redlock_core::Credentials::new("watch", "p")) };
            let node = Node::sentinel(MASTER, sentinels.urls()).sentinel_credentials(watch);
            plain(node, "r")
        };
        match left_out {
            None => works(try_it).await,
            Some(word) => {
                let lacks = is_too_little(async || {
                    try_it().await.map_err(|error| {
                        let log = format!("{:?}", sentinels.tell(&["ACL", "LOG"]));
                        (error, log.contains("watch"))
                    })
                });
                assert!(lacks.await, "{word} is not needed");
            }
        }
    }
}

/// The users that the server has refused something, as its log has them.
fn refused(server: &Server) -> String {
    format!("{:?}", server.command(&["ACL", "LOG", "1000"]))
}

#[tokio::test]
async fn the_configuration_to_copy_is_one_with_which_locks_of_every_kind_work() {
    let page = page();
    let (_, rest) = page.split_once("```conf\n").unwrap();
    let (configuration, _) = rest.split_once("```").unwrap();
    let mut server = Server::builder();
    // The harness has another address and folder, and a user of its own.
    let of_the_harness = ["bind", "port", "dir", "user default"];
    for line in configuration.lines().filter(|line| !line.starts_with('#')) {
        if of_the_harness.iter().any(|it| line.starts_with(it)) {
            continue;
        }
        let words: Vec<_> = line.split(' ').collect();
        let values: Vec<_> = words[1..].iter().map(|it| it.trim_matches('"')).collect();
        server = server.argument(&[&format!("--{}", words[0])]).argument(&values);
    }
    let words = configuration.split(' ').filter(|it| it.starts_with('+')).map(str::trim);
    assert_eq!(words.collect::<Vec<_>>(), to_copy(), "its user is the one to copy");
    let server = &server.start();
    let url = format!("redis://locks:PASSWORD@{}", server.address());
    works(|| everything(server, url.clone(), "whole")).await;
    let policy = server.command(&["CONFIG", "GET", "maxmemory-policy"]);
    assert!(format!("{policy:?}").contains("noeviction"), "{policy:?}");
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
