//! A Redis Cluster as one node: each lock is kept by the master of its slot.
//!
//! | file | what it does |
//! |---|---|
//! | [`slots`] | which slot a key belongs to |
//! | [`topology`] | which member has which slots, as a member tells it |
//! | [`history`] | which slots may have forgotten locks (rule 16) |
//! | [`look`] | a look at the cluster |
//! | [`members`] | the connections to the masters, which command goes to which, and what a look changes |
//! | [`connection`] | all of it as one connection |

mod connection;
mod history;
mod look;
mod members;
mod slots;
#[cfg(test)]
mod tests;
mod topology;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;

use self::{
    connection::ClusterConnection,
    history::History,
    look::{Looker, first_master},
    members::{Members, late},
    topology::MemberAddress,
};
use super::{
    checks::{none, opener},
    control_connection::ControlAccess,
    opener::Opener,
    url::Endpoint,
};
use crate::{
    clock::Clock,
    error::{LockError, NodeError, NodeErrorKind},
    node::{Connection, Connector, Context, Identity, Opened, Watchers, settings::NodeSettings},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Connects to the masters of one cluster.
pub(super) struct ClusterConnector {
    looker: Arc<Looker>,
    clock: Arc<dyn Clock>,
    history: Arc<Mutex<History>>,
    /// The name of the cluster to this client, which stays the same while its members change. To tell nodes apart, all
    /// clients go by the fingerprint of the present look instead.
    id: OnceLock<Arc<str>>,
}

impl ClusterConnector {
    pub(super) fn new(
        endpoints: Vec<Endpoint>,
        settings: NodeSettings,
        context: &Context,
    ) -> Result<Self, LockError> {
        let place = |it: &Endpoint| MemberAddress {
            host: it.address.host().to_owned(),
            port: it.address.port(),
        };
        let seeds = endpoints.iter().map(place).collect();
        let Some(first) = endpoints.into_iter().next() else {
            return Err(none("Node::cluster"));
        };
        let (name, like) = (Arc::clone(&first.name), first.address.clone());
        let limit = context.connect_timeout / 3;
        let opener = opener(first, settings, context, limit)?;
        let opener = Arc::new(Opener { is_cluster: true, ..opener });
        let access = ControlAccess {
            opener: Arc::clone(&opener),
            credentials: opener.credentials.clone(),
            login: opener.login.clone(),
            login_at_need: false,
            limit,
        };
        let overlap = overlap(limit);
        let span = context.sits_out.saturating_add(overlap);
        let looker = Looker {
            name,
            seeds,
            like,
            opener,
            access: Arc::new(access),
            connections: Mutex::default(),
            limit,
            span,
            watchers: Mutex::default(),
            advice: Mutex::default(),
            entropy: Arc::clone(&context.entropy),
            fingerprint: AtomicU64::new(0),
        };
        let history = History::new(context.restarts, span, overlap);
        Ok(Self {
            looker: Arc::new(looker),
            clock: Arc::clone(&context.clock),
            history: Arc::new(Mutex::new(history)),
            id: OnceLock::new(),
        })
    }

    async fn open(&self, watchers: &Arc<Watchers>) -> Result<Opened, String> {
        let Self { looker, clock, history, id } = self;
        *looker.watchers.lock() = Arc::clone(watchers);
        let none = BTreeSet::new();
        let found = looker.look(&none, &none, &none).await?;
        let answers_within = late::limit(looker.opener.node_timeout);
        let id = id.get_or_init(|| first_master(&found.shards).unwrap_or_default().into());
        let id = Arc::clone(id);
        let mut members = Members::new(&looker.name, clock, watchers, history, answers_within);
        let barred = members.apply(found);
        if !members.any_reached() {
            return Err(members.problem());
        }
        if barred > 0 {
            crate::telemetry::slots_sit_out(&looker.name, barred, looker.span);
        }
        // Each slot has a history of its own: the cluster as a whole never restarts.
        let identity = Identity {
            run_id: Some(id),
            uptime: Some(Duration::MAX),
            ..looker.advice.lock().clone()
        };
        let members = Arc::new(Mutex::new(members));
        let connection = ClusterConnection { looker: Arc::clone(looker), members };
        Ok((Box::new(connection) as Box<dyn Connection>, identity))
    }
}

/// For how long another client may go on with a master that was replaced, if each answer takes `limit` at most.
///
/// It may have been named just before, as a look began. A look takes twice the limit: for the answer, and for the
/// connections to masters, which are all awaited. The next one begins [`LOOK_INTERVAL`](connection::LOOK_INTERVAL) later at most, and
/// takes as long.
fn overlap(limit: Duration) -> Duration {
    connection::LOOK_INTERVAL.saturating_add(limit.saturating_mul(4))
}

impl Connector for ClusterConnector {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            self.open(&watchers)
                .await
                .map_err(|reason| NodeError::new(&self.looker.name, NodeErrorKind::Down, reason))
        })
    }

    fn overlap(&self) -> Duration {
        overlap(self.looker.limit)
    }

    fn fingerprint(&self) -> Option<u64> {
        match self.looker.fingerprint.load(Ordering::Acquire) {
            0 => None,
            fingerprint => Some(fingerprint),
        }
    }

    fn advice(&self) -> Vec<Arc<str>> {
        let sit_out = self.history.lock().all_that_sit_out(self.clock.now());
        let line = |(slots, left): (usize, Duration)| {
            format!(
                "{slots} of its {} slots give no votes for {} s more: their masters were replaced, \
                 restarted or replicas for a while and may have forgotten locks",
                slots::SLOTS,
                left.as_secs() + 1,
            )
        };
        sit_out.map(|it| line(it).into()).into_iter().collect()
    }
}
