//! Pools: clients with a name, for the whole process. Annotations refer to them.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;

use crate::{
    builder::{check, check_distinct},
    client::Client,
    error::LockError,
    redlock::Redlock,
    settings::Settings,
    sync::Mutex,
};

static POOLS: Mutex<Pools> =
    Mutex::new(Pools { named: BTreeMap::new(), joined: BTreeMap::new(), outdated: Vec::new() });

/// Clients over the nodes of several pools, by the names of these.
type Joined = BTreeMap<Vec<String>, (Vec<Redlock>, Redlock)>;

// A task that is woken, or a client that is dropped, may run code that asks for a pool: neither happens under the lock.
struct Pools {
    named: BTreeMap<String, Redlock>,
    /// The clients that [`quorum_of`] has made, with the pools that each was made of. A client is
    /// out of date once any of its pools was replaced.
    joined: Joined,
    /// Clients of pools that are no longer there, for as long as they are in use. Only [`shutdown`]
    /// can still end them.
    outdated: Vec<Weak<Client>>,
}

impl Pools {
    fn require(&self, name: &str) -> Result<Redlock, LockError> {
        self.named.get(name).cloned().ok_or_else(|| LockError::UnknownPool {
            pool: name.to_owned(),
            installed: self.named.keys().cloned().collect(),
        })
    }

    /// Forgets the clients that were made of a pool that no longer exists. They are the caller's to drop, with no lock
    /// held.
    fn forget(&mut self, name: &str) -> Joined {
        let joined = mem::take(&mut self.joined).into_iter();
        let (outdated, joined): (BTreeMap<_, _>, _) =
            joined.partition(|(names, _)| names.iter().any(|it| it == name));
        self.joined = joined;
        self.outdated.retain(|client| client.strong_count() > 0);
        self.outdated.extend(outdated.values().map(|(_, made)| Arc::downgrade(made.client())));
        outdated
    }

    /// Every client that may hold a lock through a pool.
    fn clients(&self) -> Vec<Redlock> {
        let joined = self.joined.values().map(|(_, joined)| joined);
        let outdated = self.outdated.iter().filter_map(Weak::upgrade).map(Redlock::from_client);
        self.named.values().chain(joined).cloned().chain(outdated).collect()
    }
}

/// Installs a client under a name. Annotations without `pool` use `"default"`.
///
/// # Errors
///
/// [`LockError::Config`] if the name is in use. [`replace`] installs a client all the same.
pub fn install(name: impl Into<String>, redlock: Redlock) -> Result<(), LockError> {
    let name = name.into();
    let mut pools = POOLS.lock();
    if pools.named.contains_key(&name) {
        return Err(LockError::config(format!(
            "a pool {name:?} is installed already: use another name, or pools::replace"
        )));
    }
    pools.named.insert(name, redlock);
    Ok(())
}

/// Installs a client under a name, whether or not the name is in use, and returns the previous client.
/// Locks that are held through the previous client stay held.
///
/// The new client is another client. A body that runs under a lock of the previous one, and asks for the same lock by
/// the name of the pool, does not join its own hold: it waits, and gets [`LockError::Held`].
pub fn replace(name: impl Into<String>, redlock: Redlock) -> Option<Redlock> {
    let name = name.into();
    let (_forgotten, before) = {
        let mut pools = POOLS.lock();
        (pools.forget(&name), pools.named.insert(name, redlock))
    };
    before
}

/// Removes the client of this name and returns it. `None` if there is none.
pub fn remove(name: &str) -> Option<Redlock> {
    let (_forgotten, before) = {
        let mut pools = POOLS.lock();
        (pools.forget(name), pools.named.remove(name))
    };
    before
}

/// Returns the client that is installed under this name.
#[must_use]
pub fn get(name: &str) -> Option<Redlock> {
    POOLS.lock().named.get(name).cloned()
}

/// The client installed under this name, or an error that lists the installed pools.
pub(crate) fn require(name: &str) -> Result<Redlock, LockError> {
    POOLS.lock().require(name)
}

/// Returns one client over all the nodes of several pools. The same pools give the same client, in any
/// order.
///
/// The client shares the connections of the pools, and each node keeps the `restarts` and the timeouts of its own pool.
/// Apart from that, the client has the settings of the first pool by name, with two exceptions. Its `max_ttl` is the
/// shortest of all, since a node that restarted sits out the `max_ttl` of its own pool. Its own timeouts are the longest
/// of all.
///
/// All callers with the same names share one client. If one of them shuts it down, it gives no locks to any of them
/// until one of the pools is replaced or removed. If one of the pools has been shut down, the returned client gives no locks. A
/// client that was returned earlier gives locks until this is called again, or [`shutdown`] closes all of them.
///
/// # Errors
///
/// - [`LockError::UnknownPool`] for a name that is not installed.
/// - [`LockError::Config`] for an empty list, for pools that share a node or have different key prefixes, and if the
///   ttl of the first pool does not fit the limits of the others.
pub fn quorum_of<I>(names: I) -> Result<Redlock, LockError>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    names.sort_unstable();
    let mut pools = POOLS.lock();
    let parts = names.iter().map(|name| pools.require(name)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = parts.first() else {
        return Err(LockError::config("no pools: name at least one"));
    };
    let is_closed = parts.iter().any(|part| part.client().is_closed());
    if let Some((_, joined)) = pools.joined.get(&names) {
        let joined = joined.clone();
        drop(pools);
        if is_closed {
            joined.client().close();
        }
        return Ok(joined);
    }
    let nodes: Vec<_> = parts.iter().flat_map(|part| part.client().nodes.to_vec()).collect();
    check_distinct(&nodes)?;
    let memory: Vec<_> = parts.iter().flat_map(Redlock::memory_nodes).collect();
    // Only in-memory nodes use tokio's clock: it does not see that a machine slept (rule 2).
    let keeper = parts.iter().find(|part| !part.client().is_in_memory()).unwrap_or(first);
    let client = Client::new(
        joined_settings(first, &parts)?,
        nodes,
        memory,
        Arc::clone(&keeper.client().nodes.clock),
        Arc::clone(&first.client().entropy),
    );
    // A client that is made during a shutdown gives no lock either (rule 13).
    if is_closed {
        client.close();
    }
    let joined = Redlock::from_client(Arc::new(client));
    pools.joined.insert(names, (parts, joined.clone()));
    Ok(joined)
}

/// The settings of the first pool, within what every node of every pool can keep.
fn joined_settings(first: &Redlock, parts: &[Redlock]) -> Result<Settings, LockError> {
    let mut settings = first.client().settings.clone();
    for Settings { max_ttl, node_timeout, connect_timeout, key_prefix, .. } in
        parts.iter().map(|part| &part.client().settings)
    {
        if *key_prefix != settings.key_prefix {
            return Err(LockError::config(format!(
                "pools with the key prefixes {:?} and {key_prefix:?} lock different keys: give all \
                 of them one",
                settings.key_prefix
            )));
        }
        settings.max_ttl = settings.max_ttl.min(*max_ttl);
        settings.node_timeout = settings.node_timeout.max(*node_timeout);
        settings.connect_timeout = settings.connect_timeout.max(*connect_timeout);
    }
    check(&settings)?;
    Ok(settings)
}

/// Shuts all installed clients down; see [`Redlock::shutdown`](crate::Redlock::shutdown). They stay
/// installed.
///
/// This includes the clients of [`quorum_of`], even if one of their pools was replaced or removed
/// since. A client that [`replace`] or [`remove`] has returned is left to the caller.
///
/// # Cancellation safety
///
/// If the future is dropped, the clients stay closed. The rest of the shutdown does not happen.
pub async fn shutdown(grace: Duration) {
    let clients = {
        let pools = POOLS.lock();
        let clients = pools.clients();
        // Under the lock, so that `quorum_of` finds either all of them open or all closed.
        clients.iter().for_each(|client| client.client().mark_closed());
        clients
    };
    join_all(clients.iter().map(|client| client.shutdown(grace))).await;
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;

    use tokio::time::{advance, sleep};

    use super::*;
    use crate::MemoryNode;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    async fn min_hold_of(names: [&str; 2]) -> Vec<Option<Duration>> {
        let joined = quorum_of(names).unwrap();
        let guard = joined.lock("r").min_hold(secs(20)).await.unwrap();
        guard.release().await.unwrap();
        joined.memory_nodes().iter().map(|node| node.remaining("redlock:r")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pools_of_different_age_keep_a_min_hold_for_the_same_time() {
        install("older", Redlock::in_memory(1)).unwrap();
        advance(secs(100)).await;
        install("younger", Redlock::in_memory(2)).unwrap();
        assert_eq!(min_hold_of(["older", "younger"]).await, [Some(secs(20)); 3]);
        sleep(secs(20)).await;
        assert_eq!(min_hold_of(["younger", "older"]).await, [Some(secs(20)); 3]);
    }

    /// Rule 2: the clock of nodes in memory does not see that a machine slept.
    #[tokio::test]
    async fn servers_are_locked_by_a_clock_that_sees_a_sleep_whichever_pool_is_named_first() {
        let servers = Redlock::builder().nodes(["redis://127.0.0.1:1"]).build().unwrap();
        install("a pool in memory", Redlock::in_memory(1)).unwrap();
        install("b pool of servers", servers.clone()).unwrap();
        let joined = quorum_of(["a pool in memory", "b pool of servers"]).unwrap();
        let clock = |of: &Redlock| Arc::as_ptr(&of.client().nodes.clock).cast::<()>();
        assert_eq!(clock(&joined), clock(&servers));
    }

    #[tokio::test(start_paused = true)]
    async fn pools_lock_the_same_in_whatever_order_they_are_named() {
        install("one", Redlock::in_memory(1)).unwrap();
        install("two", Redlock::in_memory(2)).unwrap();
        let _guard = quorum_of(["two", "one"]).unwrap().lock("r").await.unwrap();
        let error = quorum_of(["one", "two"]).unwrap().try_lock("r").await.unwrap_err();
        assert!(matches!(error, LockError::Held { by_this_client: true, .. }), "{error}");

        let other = Redlock::builder().nodes([MemoryNode::new()]).key_prefix("other:");
        install("other keys", other.build().unwrap()).unwrap();
        let error = quorum_of(["one", "other keys"]).unwrap_err();
        assert!(error.to_string().contains("key prefixes"), "{error}");

        get("one").unwrap().shutdown(Duration::ZERO).await;
        let error = quorum_of(["one", "two"]).unwrap().lock("s").await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }

    fn names(redlock: &Redlock) -> Vec<String> {
        redlock.client().nodes.iter().map(|node| node.name().to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_was_replaced_or_removed_is_in_no_quorum_any_more() {
        let [first, second, third] = [1, 2, 3].map(Redlock::in_memory);
        install("replaced", first.clone()).unwrap();
        install("stays", second.clone()).unwrap();
        let pools = ["replaced", "stays"];
        let before = quorum_of(pools).unwrap();
        assert_eq!(names(&before), [names(&first), names(&second)].concat());
        let held = before.lock("r").await.unwrap();

        replace("replaced", third.clone()).unwrap();
        let after = quorum_of(pools).unwrap();
        assert_eq!(names(&after), [names(&third), names(&second)].concat());
        assert_eq!(names(&quorum_of(pools).unwrap()), names(&after));
        drop(after.lock("s").await.unwrap());
        assert_eq!(held.release().await.unwrap(), crate::Released::Ours);

        remove("replaced").unwrap();
        let error = quorum_of(pools).unwrap_err();
        assert!(matches!(error, LockError::UnknownPool { .. }), "{error}");
    }

    /// Each part answers in the time that its own pool gives it.
    #[tokio::test(start_paused = true)]
    async fn a_pool_of_far_nodes_is_waited_for_wherever_its_name_comes() {
        let builder = || Redlock::builder().nodes([MemoryNode::new(), MemoryNode::new()]);
        let far = builder().node_timeout(secs(1)).connect_timeout(secs(9)).build().unwrap();
        install("a near one", Redlock::in_memory(1)).unwrap();
        install("b far one", far.clone()).unwrap();
        far.memory_nodes().iter().for_each(|node| node.slow(Duration::from_millis(500)));
        let joined = quorum_of(["a near one", "b far one"]).unwrap();
        let settings = &joined.client().settings;
        assert_eq!((settings.node_timeout, settings.connect_timeout), (secs(1), secs(9)));
        let guard = joined.try_lock("r").await.unwrap();
        guard.extend(secs(30)).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), crate::Released::Ours);
    }

    /// A server does not push this process's own deletes to it: the nodes are shared, and so are
    /// their connections.
    #[tokio::test(start_paused = true)]
    async fn a_waiter_is_woken_by_a_release_over_its_own_connection() {
        install("shared", Redlock::in_memory(3)).unwrap();
        install("more", Redlock::in_memory(2)).unwrap();
        for names in [&["shared", "more"][..], &["shared"]] {
            let part = get("shared").unwrap();
            let joined = quorum_of(names).unwrap();
            for hold in [1, 60, 700] {
                let guard = part.lock("r").await.unwrap();
                let waiting = joined.lock("r").wait(secs(300)).retry_delay(secs(60));
                let waiting = tokio::spawn(waiting.into_future());
                sleep(Duration::from_millis(hold)).await;
                assert!(!waiting.is_finished());
                drop(guard);
                let woken = tokio::time::timeout(Duration::from_millis(100), waiting).await;
                drop(woken.expect("it is not woken").unwrap().unwrap());
                sleep(secs(1)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_lock_outlives_the_quarantine_of_any_pool() {
        let nodes = [MemoryNode::new(), MemoryNode::new()];
        let client = |node: &MemoryNode| Redlock::builder().nodes([node]);
        let long = client(&nodes[0]).max_ttl(secs(600));
        install("long", long.clone().build().unwrap()).unwrap();
        install("longer", long.nodes([MemoryNode::new()]).ttl(secs(300)).build().unwrap()).unwrap();
        install("short", client(&nodes[1]).build().unwrap()).unwrap();

        let joined = quorum_of(["long", "short"]).unwrap();
        let error = joined.lock("r").ttl(secs(300)).await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        let other = quorum_of(["short", "long"]).unwrap();
        let error = quorum_of(["longer", "short"]).unwrap_err();
        assert!(error.to_string().contains("over max_ttl"), "{error}");

        let guard = joined.lock("r").ttl(secs(60)).auto_extend(false).await.unwrap();
        nodes.iter().for_each(MemoryNode::restart_empty);
        while guard.is_valid() {
            assert!(other.try_lock("r").await.is_err(), "another client has the lock as well");
            sleep(secs(1)).await;
        }
    }
}
