//! Looks at the cluster: which member has which slots, and a connection to each master.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{Pipeline, Value};

use super::{
    members::found::{Found, Reached},
    topology::{self, MemberAddress, Shard},
};
use crate::{
    node::{
        Identity, Watchers,
        backoff::Backoff,
        fnv1a,
        redis::{
            control_connection::{ControlAccess, ControlConnection},
            opener::Opener,
            reply, server_error,
            url::Address,
        },
    },
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    token::{self, Entropy},
};

/// Looks at the cluster, and connects to masters.
pub(super) struct Looker {
    pub(super) name: Arc<str>,
    pub(super) seeds: Vec<MemberAddress>,
    /// How its members are reached.
    pub(super) like: Address,
    pub(super) opener: Arc<Opener>,
    pub(super) access: Arc<ControlAccess>,
    /// For questions to the seeds, and to the members that are reached.
    pub(super) connections: Mutex<BTreeMap<MemberAddress, Arc<ControlConnection>>>,
    pub(super) limit: Duration,
    /// How long a slot that may have forgotten locks gives none.
    pub(super) span: Duration,
    pub(super) watchers: Mutex<Arc<Watchers>>,
    /// A member evicts keys by this policy, or does not tell its run id.
    pub(super) advice: Mutex<Identity>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// The fingerprint of the cluster, as the last look has found it; zero before the first one.
    pub(super) fingerprint: AtomicU64,
}

impl Looker {
    /// Asks which member has which slots, and connects to the masters that are not `reached`, and to
    /// the members that are `wanted` for other reasons. Those that are `spared` are not connected.
    pub(super) async fn look(
        &self,
        reached: &BTreeSet<MemberAddress>,
        wanted: &BTreeSet<MemberAddress>,
        spared: &BTreeSet<MemberAddress>,
    ) -> Result<Found, String> {
        let shards = self.shards(reached).await?;
        if let Some(first) = first_master(&shards) {
            self.fingerprint.store(fnv1a(first.as_bytes()), Ordering::Release);
        }
        let masters: BTreeSet<&MemberAddress> =
            shards.iter().map(|it| &it.place).chain(wanted).collect();
        let missing =
            masters.into_iter().filter(|place| !reached.contains(place) && !spared.contains(place));
        let opened = join_all(missing.map(|place| self.reach(place))).await;
        Ok(Found { shards, opened })
    }

    /// This pause with random time added.
    pub(super) fn jittered(&self, pause: Duration) -> Duration {
        pause + token::up_to(&*self.entropy, Backoff::jitter(pause))
    }

    /// Which member has which slots, as the first member tells it that is in touch with the others.
    async fn shards(&self, reached: &BTreeSet<MemberAddress>) -> Result<Vec<Shard>, String> {
        let mut questions = Pipeline::new();
        questions.cmd("CLUSTER").arg("INFO");
        questions.cmd("CLUSTER").arg("SLOTS");
        let questions = &Arc::new(questions);
        let asked: BTreeSet<&MemberAddress> = self.seeds.iter().chain(reached).collect();
        self.connections.lock().retain(|place, _| asked.contains(place));
        let mut asked: FuturesUnordered<_> = asked
            .into_iter()
            .map(|place| {
                let connection = self.connection(place);
                async move {
                    let answers = connection.ask(questions, &self.access).await;
                    (place, answers.and_then(|answers| told(&answers, &place.host)))
                }
            })
            .collect();
        let mut cut_off = None;
        let mut problems = Vec::new();
        while let Some((place, answer)) = asked.next().await {
            match answer {
                // A member that belongs to no cluster, as after a reset, knows of no master.
                Ok((_, shards)) if shards.is_empty() => {
                    problems.push(format!("{}:{}: it knows of no master", place.host, place.port));
                }
                Ok((true, shards)) => return Ok(shards),
                Ok((false, shards)) => cut_off = Some(shards),
                Err(why) => problems.push(format!("{}:{}: {why}", place.host, place.port)),
            }
        }
        // A cluster that has lost a slot says that it is down, and may serve its other slots.
        cut_off.ok_or_else(|| format!("no member says which slots it has: {}", problems.join("; ")))
    }

    fn connection(&self, place: &MemberAddress) -> Arc<ControlConnection> {
        let mut connections = self.connections.lock();
        let connection = connections.entry(place.clone()).or_insert_with(|| {
            Arc::new(ControlConnection::new(self.like.beside(place.host.clone(), place.port)))
        });
        Arc::clone(connection)
    }

    async fn reach(&self, place: &MemberAddress) -> (MemberAddress, Result<Reached, Arc<str>>) {
        let address = self.like.beside(place.host.clone(), place.port);
        let watchers = Arc::clone(&self.watchers.lock());
        let opening = self.opener.open(&self.name, &address, &watchers);
        let reached = match tokio::time::timeout(self.limit, opening).await {
            Err(_) => Err(format!("no connection within {:?}", self.limit).into()),
            Ok(Err(failure)) => Err(failure.reason),
            Ok(Ok((exchange, identity))) => {
                let mut advice = self.advice.lock();
                advice.is_nameless |= identity.run_id.is_none();
                advice.evicts = advice.evicts.take().or(identity.evicts);
                let Identity { run_id, followed, uptime, .. } = identity;
                Ok(Reached { exchange, run_id, followed, uptime })
            }
        };
        (place.clone(), reached)
    }
}

/// The master by whose name a cluster is known: a cluster has no name of its own. All clients that look at the cluster
/// find the same one.
pub(super) fn first_master(shards: &[Shard]) -> Option<&str> {
    shards.iter().map(|it| it.id.as_str()).min()
}

/// Reads whether a member is in touch with the others, and which member has which slots.
fn told(answers: &[Value], host: &str) -> Result<(bool, Vec<Shard>), String> {
    let [state, slots] = answers else { return Err("it answered too little".to_owned()) };
    if let Value::ServerError(error) = slots {
        return Err(server_error::explain(error, ""));
    }
    let shards = topology::read(slots, host)
        .ok_or_else(|| reply::unexpected(slots, "the slots of a cluster"))?;
    // A user that may not ask for the state is told nothing about it.
    let state: String = redis::from_redis_value_ref(state).unwrap_or_default();
    Ok((!state.contains("cluster_state:fail"), shards))
}
