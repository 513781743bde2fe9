//! Clients by name, for the whole process: what annotations refer to.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use parking_lot::Mutex;

use crate::{builder::check_distinct, client::Client, error::LockError, redlock::Redlock};

static POOLS: Mutex<Pools> = Mutex::new(Pools { named: BTreeMap::new(), joined: BTreeMap::new() });

struct Pools {
    named: BTreeMap<String, Redlock>,
    /// What [`quorum_of`] has made, with what it was made of: a pool that was replaced since
    /// makes it out of date.
    joined: BTreeMap<Vec<String>, (Vec<Redlock>, Redlock)>,
}

impl Pools {
    fn require(&self, name: &str) -> Result<Redlock, LockError> {
        self.named.get(name).cloned().ok_or_else(|| LockError::UnknownPool {
            pool: name.to_owned(),
            installed: self.named.keys().cloned().collect(),
        })
    }

    /// Forgets what was made of a pool that is no longer there.
    fn forget(&mut self, name: &str) {
        self.joined.retain(|names, _| !names.iter().any(|it| it == name));
    }
}

/// Installs a client under a name. Annotations without `pool` use `"default"`.
///
/// # Errors
///
/// [`LockError::Config`] when the name is in use: [`replace`] says that this is meant.
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

/// Installs a client under a name, whether it is in use or not; answers the one before. Locks
/// that are held through that one stay held.
pub fn replace(name: impl Into<String>, redlock: Redlock) -> Option<Redlock> {
    let name = name.into();
    let mut pools = POOLS.lock();
    pools.forget(&name);
    pools.named.insert(name, redlock)
}

/// Takes a client out; answers it when it was there.
pub fn remove(name: &str) -> Option<Redlock> {
    let mut pools = POOLS.lock();
    pools.forget(name);
    pools.named.remove(name)
}

/// The client installed under this name.
#[must_use]
pub fn get(name: &str) -> Option<Redlock> {
    POOLS.lock().named.get(name).cloned()
}

/// As [`get`], with an error that says which pools there are.
pub(crate) fn require(name: &str) -> Result<Redlock, LockError> {
    POOLS.lock().require(name)
}

/// One client over all the nodes of several pools, the same one each time. It shares their
/// connections, and takes its settings from the first.
///
/// # Errors
///
/// [`LockError::UnknownPool`] for a name that is not installed, [`LockError::Config`] for no names
/// and for pools that share a node.
pub fn quorum_of<I>(names: I) -> Result<Redlock, LockError>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    let mut pools = POOLS.lock();
    let parts = names.iter().map(|name| pools.require(name)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = parts.first() else {
        return Err(LockError::config("no pools: name at least one"));
    };
    if let Some((_, joined)) = pools.joined.get(&names) {
        return Ok(joined.clone());
    }
    let nodes: Vec<_> = parts.iter().flat_map(|part| part.client().nodes.to_vec()).collect();
    check_distinct(&nodes)?;
    let client = Client::new(
        first.client().settings.clone(),
        nodes,
        parts.iter().flat_map(Redlock::memory_nodes).collect(),
        Arc::clone(&first.client().clock),
        Arc::clone(&first.client().entropy),
    );
    let joined = Redlock::from_client(Arc::new(client));
    pools.joined.insert(names, (parts, joined.clone()));
    Ok(joined)
}

/// Shuts all of them down, those of [`quorum_of`] included; see
/// [`Redlock::shutdown`](crate::Redlock::shutdown). They stay installed.
pub async fn shutdown(grace: Duration) {
    let clients: Vec<Redlock> = {
        let pools = POOLS.lock();
        let joined = pools.joined.values().map(|(_, joined)| joined);
        pools.named.values().chain(joined).cloned().collect()
    };
    join_all(clients.iter().map(|client| client.shutdown(grace))).await;
}
