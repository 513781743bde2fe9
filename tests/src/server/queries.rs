//! What a test asks a server, over a connection of the harness.

use std::time::Duration;

use redis::Value;

use super::{NAME, Server, lock};
use crate::monitor::Monitor;

impl Server {
    /// One command, with its answer; an error from the server fails the test.
    pub fn command(&self, words: &[&str]) -> Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.query(&command)
    }

    /// All keys of database 0, in order.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.query(redis::cmd("KEYS").arg("*"));
        keys.sort();
        keys
    }

    /// The text in a key, if it is there.
    pub fn get(&self, key: &str) -> Option<String> {
        self.query(redis::cmd("GET").arg(key))
    }

    /// How long a key still lives; `None` when it is not there. A key without an expiry fails the
    /// test: no lock may live for ever.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        // Of a smaller type redis-rs would give what fits into it.
        match self.query::<i64>(redis::cmd("PTTL").arg(key)) {
            -2 => None,
            left => Some(Duration::from_millis(
                u64::try_from(left).unwrap_or_else(|_| panic!("{key:?} never expires")),
            )),
        }
    }

    /// One section of INFO.
    pub fn info(&self, section: &str) -> String {
        self.query(redis::cmd("INFO").arg(section))
    }

    /// How many replicas have acknowledged everything. A replica that is only `online` may not be sent
    /// anything yet: a master streams to it from its first acknowledgement on.
    pub fn replicas_in_step(&self) -> usize {
        // There has to be something that they can acknowledge.
        self.command(&["CONFIG", "SET", "repl-ping-replica-period", "1"]);
        let info = self.info("replication");
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let offset = info.lines().find_map(|it| number(it.strip_prefix("master_repl_offset:")?));
        let acknowledged = |line: &&str| {
            let fields = || line.split([',', ':']);
            let at = fields().find_map(|it| number(it.strip_prefix("offset=")?));
            fields().any(|it| it == "state=online") && at > Some(0) && at >= offset
        };
        info.lines().filter(|it| it.starts_with("slave")).filter(acknowledged).count()
    }

    /// The lines of CLIENT LIST without the harness's own.
    pub fn clients(&self) -> Vec<String> {
        let list: String = self.query(redis::cmd("CLIENT").arg("LIST"));
        let own = format!(" name={NAME} ");
        list.lines().filter(|line| !line.contains(&own)).map(str::to_owned).collect()
    }

    /// How many connections the server has accepted since its start.
    pub fn connections(&self) -> u64 {
        connections_in(&self.info("stats"))
    }

    /// Records the commands that the server sees from now on.
    pub fn monitor(&self) -> Monitor<'_> {
        let mut connection = self.settings.connect(self.port).unwrap();
        let address = own_address(&mut connection);
        *lock(&self.connection) = Some(connection);
        Monitor::start(self, address)
    }

    pub(super) fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let mut slot = lock(&self.connection);
        let connection = slot.get_or_insert_with(|| {
            self.settings.connect(self.port).unwrap_or_else(|error| {
                panic!("the server on port {} cannot be reached: {error}", self.port)
            })
        });
        let answer = command.query(connection);
        if answer.is_err() {
            // A late answer to this command must not be taken for that of the next.
            slot.take();
        }
        answer.unwrap_or_else(|error| panic!("the server on port {}: {error}", self.port))
    }

    /// Ends the harness's own connection, which others may have killed. The next command opens another.
    pub fn forget_connection(&self) {
        lock(&self.connection).take();
    }
}

/// How many connections were accepted, as `INFO stats` says.
fn connections_in(stats: &str) -> u64 {
    let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.and_then(|it| it.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {stats:?}"))
}

/// The address from which the server sees this connection.
fn own_address(connection: &mut redis::Connection) -> String {
    let info: String = redis::cmd("CLIENT").arg("INFO").query(connection).unwrap();
    let address = info.split(' ').find_map(|word| word.strip_prefix("addr="));
    address.unwrap_or_else(|| panic!("no address in {info:?}")).to_owned()
}
