//! The master that sentinels agree on.
//!
//! The sentinels are asked at every connect, and once a second while the connection lasts. An isolated master serves
//! the clients that reach it until the sentinels reach it again. A client that goes on with it holds locks that the new
//! master gives to others. So the connection ends when most of the sentinels name another master.

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use redis::{Pipeline, Value};

use super::{
    checks::{none, opener},
    connection::RedisConnection,
    control_connection::{ControlAccess, ControlConnection},
    failure::Failure,
    opener::Opener,
    reply, server_error,
    url::Endpoint,
};
use crate::{
    error::{LockError, NodeError, NodeErrorKind},
    node::{Connector, Context, Opened, Watchers, ending_by::ending_by, settings::NodeSettings},
    telemetry,
};

/// How often the sentinels are asked whether the master is still the same.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// Opens connections to the master of one name.
pub(super) struct SentinelConnector {
    name: Arc<str>,
    sentinels: Arc<Sentinels>,
    /// For the masters.
    opener: Arc<Opener>,
}

/// The sentinels of one master.
struct Sentinels {
    master: String,
    all: Vec<Arc<ControlConnection>>,
    access: Arc<ControlAccess>,
}

/// A master, as a sentinel names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MasterAddress {
    host: String,
    port: u16,
}

/// The master that most sentinels name.
#[derive(Debug)]
struct Agreed {
    master: MasterAddress,
    /// How long it has been the master, as far as the sentinels know.
    since: Option<Duration>,
}

impl SentinelConnector {
    pub(super) fn new(
        name: &Arc<str>,
        master: &str,
        endpoints: Vec<Endpoint>,
        mut settings: NodeSettings,
        context: &Context,
    ) -> Result<Self, LockError> {
        let connection = |it: &Endpoint| Arc::new(ControlConnection::new(it.address.clone()));
        let all = endpoints.iter().map(connection).collect();
        let open_to_all = endpoints.iter().any(|it| !it.address.is_private());
        let Some(first) = endpoints.into_iter().next() else {
            return Err(none("Node::sentinel"));
        };
        let credentials = settings.sentinel_credentials.take();
        if credentials.is_some() && open_to_all {
            telemetry::unencrypted(name);
        }
        let login = first.login.clone();
        // For the answers of the sentinels, and then for the connection to the master.
        let limit = context.connect_timeout / 2;
        let opener = Arc::new(opener(first, settings, context, limit)?);
        let access = ControlAccess {
            opener: Arc::clone(&opener),
            credentials,
            // That of the first URL is that of the masters.
            login,
            login_at_need: true,
            limit,
        };
        let sentinels = Sentinels { master: master.to_owned(), all, access: Arc::new(access) };
        Ok(Self { name: Arc::clone(name), sentinels: Arc::new(sentinels), opener })
    }

    async fn open(&self, watchers: &Arc<Watchers>) -> Result<Opened, Failure> {
        let Self { name, sentinels, opener } = self;
        let Agreed { master, since } = sentinels.agree().await?;
        let Some(any) = sentinels.all.first() else { return Err("no sentinels".to_owned().into()) };
        let address = any.address.beside(master.host.clone(), master.port);
        let opened = opener.open(name, &address, watchers).await;
        let (exchange, mut identity) = opened.map_err(|failure| {
            let reason =
                format!("{} (the master at {}:{})", failure.reason, master.host, master.port);
            Failure { reason: reason.into(), ..failure }
        })?;
        // A replica that was promoted has been up for long, and a master for a moment.
        identity.uptime = identity.uptime.map(|up| since.map_or(up, |since| up.min(since)));
        let (name, sentinels) = (Arc::clone(name), Arc::clone(sentinels));
        let close_reason = exchange.close_reason();
        let connection = Box::new(RedisConnection::new(exchange));
        // A connection to the master, as long as it is the master.
        let connection = ending_by(connection, move |connection| {
            let closed = connection.closed();
            let (name, master) = (Arc::clone(&name), master.clone());
            let (sentinels, close_reason) = (Arc::clone(&sentinels), close_reason.clone());
            let moved = async move {
                let now = sentinels.moved(&master).await;
                let reason =
                    format!("the sentinels have named another master, {}:{}", now.host, now.port);
                // The end of `closed` fails the commands in flight, with the first reason that is there.
                close_reason.set(&*reason);
                NodeError::new(&name, NodeErrorKind::Disconnected, reason)
            };
            async move {
                tokio::select! {
                    biased;
                    error = closed => error,
                    error = moved => error,
                }
            }
            .boxed()
        });
        Ok((connection, identity))
    }
}

impl Connector for SentinelConnector {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            self.open(&watchers).await.map_err(|failure| failure.of_node(&self.name))
        })
    }

    fn overlap(&self) -> Duration {
        self.sentinels.overlap()
    }
}

impl Sentinels {
    /// For how long a client may go on with a master that was replaced. A client that reaches no majority of the
    /// sentinels goes on without a bound (`docs/servers.md`).
    ///
    /// The sentinels may have named it just before, when the client began to connect. That takes `connect_timeout`
    /// at most, twice the limit. They are asked again [`ASK_INTERVAL`] later, and are heard within the limit. Between
    /// two later questions it is less: the first of them is heard within the limit, too.
    fn overlap(&self) -> Duration {
        ASK_INTERVAL.saturating_add(self.access.limit.saturating_mul(3))
    }

    /// The master that more than half of the sentinels name. A sentinel that hangs delays nothing
    /// while the others agree.
    async fn agree(&self) -> Result<Agreed, String> {
        let mut questions = Pipeline::new();
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        questions.cmd("SENTINEL").arg("MASTER").arg(&self.master);
        let questions = &Arc::new(questions);
        let mut asked: FuturesUnordered<_> = self
            .all
            .iter()
            .map(|sentinel| async move {
                let answers = sentinel.ask(questions, &self.access).await;
                (sentinel, answers.and_then(|answers| named(&answers)))
            })
            .collect();
        let mut votes: Vec<(MasterAddress, Option<Duration>)> = Vec::new();
        let mut problems = Vec::new();
        while let Some((sentinel, answer)) = asked.next().await {
            match answer {
                Ok(vote) => votes.push(vote),
                Err(why) => problems.push(format!("{}: {why}", sentinel.address)),
            }
            if let Some(agreed) = majority(&votes, self.all.len()) {
                return Ok(agreed);
            }
        }
        problems.extend(
            votes.iter().map(|(named, _)| format!("one names {}:{}", named.host, named.port)),
        );
        Err(format!(
            "most of the {} sentinels have to name the same master {}: {}",
            self.all.len(),
            self.master,
            problems.join("; ")
        ))
    }

    /// Resolves when the sentinels have agreed on another master.
    async fn moved(&self, from: &MasterAddress) -> MasterAddress {
        loop {
            tokio::time::sleep(ASK_INTERVAL).await;
            match self.agree().await {
                Ok(Agreed { master, .. }) if master != *from => return master,
                _ => {}
            }
        }
    }
}

/// What more than half of `all` have named.
fn majority(votes: &[(MasterAddress, Option<Duration>)], all: usize) -> Option<Agreed> {
    let (last, _) = votes.last()?;
    let same = || votes.iter().filter(|(named, _)| named == last);
    if same().count() * 2 <= all {
        return None;
    }
    // The shortest time is the safe one: a sentinel that restarted has known it for a moment.
    let since = same().filter_map(|(_, since)| *since).min();
    Some(Agreed { master: last.clone(), since })
}

/// Reads the address of the master, and how long it has been the master.
fn named(answers: &[Value]) -> Result<(MasterAddress, Option<Duration>), String> {
    let [address, state] = answers else { return Err("it answered too little".to_owned()) };
    match address {
        Value::ServerError(error) => return Err(server_error::explain(error, "")),
        Value::Nil => {
            return Err("it knows no master of this name: use the name in its `sentinel monitor`"
                .to_owned());
        }
        _ => {}
    }
    let Ok((host, port)) = redis::from_redis_value_ref::<(String, u16)>(address) else {
        return Err(reply::unexpected(address, "host and port"));
    };
    let master = MasterAddress { host, port };
    let fields = redis::from_redis_value_ref::<Vec<(String, String)>>(state).unwrap_or_default();
    let field = |name: &str| fields.iter().find(|(it, _)| it == name).map(|(_, value)| &**value);
    let is_of_master = field("ip") == Some(&master.host)
        && field("port").and_then(|it| it.parse().ok()) == Some(master.port);
    let since = field("role-reported-time").and_then(|it| it.parse().ok());
    // In the middle of a failover, the state is still that of the old master.
    let since = if is_of_master { since.map(Duration::from_millis) } else { Some(Duration::ZERO) };
    Ok((master, since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(host: &str, seconds: u64) -> (MasterAddress, Option<Duration>) {
        (MasterAddress { host: host.to_owned(), port: 1 }, Some(Duration::from_secs(seconds)))
    }

    #[test]
    fn more_than_half_of_all_sentinels_have_to_agree() {
        assert!(majority(&[vote("a", 9)], 3).is_none());
        assert!(majority(&[vote("a", 9), vote("b", 9)], 3).is_none());
        assert!(majority(&[vote("a", 9), vote("a", 9)], 4).is_none(), "half is not enough");
        let agreed = majority(&[vote("b", 1), vote("a", 9), vote("a", 5)], 3).unwrap();
        assert_eq!(agreed.master, vote("a", 0).0);
        assert_eq!(agreed.since, Some(Duration::from_secs(5)));
        assert!(majority(&[vote("a", 9)], 1).is_some(), "one sentinel, one opinion");
    }

    #[test]
    fn a_sentinel_names_a_master_and_says_since_when() {
        let read = |text: &str| redis::parse_redis_value(text.as_bytes()).unwrap();
        let address = read("*2\r\n$1\r\na\r\n$1\r\n1\r\n");
        let state = |ip: &str| {
            read(&format!(
                "*6\r\n$2\r\nip\r\n$1\r\n{ip}\r\n$4\r\nport\r\n$1\r\n1\r\n\
                 $18\r\nrole-reported-time\r\n$4\r\n9000\r\n"
            ))
        };
        assert_eq!(named(&[address.clone(), state("a")]), Ok(vote("a", 9)));
        assert_eq!(named(&[address.clone(), state("b")]), Ok(vote("a", 0)), "a failover goes on");
        let quiet = named(&[address, read("-NOPERM no\r\n")]).unwrap();
        assert_eq!(quiet.0, vote("a", 0).0);
        for (answer, words) in
            [("*-1\r\n", "no master of this name"), ("-IDONTKNOW x\r\n", "IDONTKNOW")]
        {
            assert!(named(&[read(answer), read("_\r\n")]).unwrap_err().contains(words));
        }
    }
}
