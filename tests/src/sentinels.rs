//! A master with replicas, and sentinels that watch over them.

use std::{fs, thread, time::Duration};

use redis::Value;
use tempfile::TempDir;

use crate::{
    port,
    process::Process,
    server::{Server, ServerBuilder},
    wait::{LIMIT, wait_blocking},
};

/// The name of the master.
pub const MASTER: &str = "mymaster";

/// The user as which a replica asks its master, where the servers have no password: its name, and its rules.
const REPLICA: [&str; 6] = ["replica", "on", ">replica", "+psync", "+replconf", "+ping"];

/// Real sentinels. They fail over within a few seconds.
#[derive(Debug)]
pub struct Sentinels {
    /// The first of them is the master at first.
    pub servers: Vec<Server>,
    ports: Vec<u16>,
    _processes: Vec<Process>,
    _directories: Vec<TempDir>,
}

impl Sentinels {
    /// A master, this many replicas, and three sentinels that know each other. `password` is that of
    /// the servers, `sentinel_password` that of the sentinels.
    pub fn start(replicas: usize, password: Option<&str>, sentinel_password: Option<&str>) -> Self {
        let kind = || {
            let kind = Server::builder().argument(&["--repl-ping-replica-period", "1"]);
            match password {
                Some(password) => kind.password(password).argument(&["--masterauth", password]),
                None => kind
                    .user(&REPLICA)
                    .argument(&["--masteruser", REPLICA[0]])
                    .argument(&["--masterauth", REPLICA[0]]),
            }
        };
        let master = kind().start();
        let replica = |_| -> ServerBuilder { kind().replica_of(&master) };
        let mut servers: Vec<_> = (0..replicas).map(replica).map(ServerBuilder::start).collect();
        let ready = wait_blocking(|| master.replicas_in_step() == replicas);
        assert!(ready, "the replicas do not connect");
        servers.insert(0, master);

        let mut sentinels =
            Self { servers, ports: Vec::new(), _processes: Vec::new(), _directories: Vec::new() };
        for _ in 0..3 {
            sentinels.add(password, sentinel_password);
        }
        let known = wait_blocking(|| {
            sentinels.ports.iter().all(|port| {
                count(*port, sentinel_password, "SENTINELS") == 2
                    && count(*port, sentinel_password, "REPLICAS") == replicas
            })
        });
        assert!(known, "the sentinels do not find each other within {LIMIT:?}");
        sentinels
    }

    fn add(&mut self, password: Option<&str>, own: Option<&str>) {
        let directory = tempfile::Builder::new().prefix("redlock-sentinel-").tempdir().unwrap();
        let port = port::free();
        let mut config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {MASTER} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {MASTER} 500\n\
             sentinel failover-timeout {MASTER} 3000\n",
            directory.path().display(),
            self.servers[0].port(),
        );
        if let Some(password) = password {
            config += &format!("sentinel auth-pass {MASTER} {password}\n");
        }
        if let Some(own) = own {
            config += &format!("requirepass {own}\nsentinel sentinel-pass {own}\n");
        }
        let file = directory.path().join("sentinel.conf");
        fs::write(&file, config).unwrap();
        let log = directory.path().join("log");
        let arguments = [file.display().to_string(), "--sentinel".to_owned()];
        self._processes.push(Process::start("redis-server", arguments, &log));
        self._directories.push(directory);
        self.ports.push(port);
    }

    /// The URLs of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    /// The server that all sentinels name.
    pub fn master(&self) -> Option<&Server> {
        let named = self.ports.iter().map(|port| {
            let named = ask(*port, None, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).ok()?;
            let (_, port): (String, u16) = redis::from_redis_value(named).ok()?;
            Some(port)
        });
        let named: Vec<u16> = named.collect::<Option<_>>()?;
        let first = *named.first()?;
        let same = named.iter().all(|it| *it == first);
        self.servers.iter().find(|it| same && it.port() == first)
    }

    /// Has the sentinels promote a replica, although the master is well.
    pub fn fail_over(&self) {
        for _ in 0..100 {
            if ask(self.ports[0], None, &["SENTINEL", "FAILOVER", MASTER]).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the sentinels refuse to fail over");
    }

    /// Keeps from all replicas what this master is told from now on, although they are its replicas and
    /// the sentinels know them as that: the writes of the last moment before a failover, which a
    /// failover loses. For servers without a password.
    pub fn cut_replication(&self, master: &Server) {
        // A replica that has not heard of its master for ten times this is not promoted.
        self.tell(&["SENTINEL", "SET", MASTER, "down-after-milliseconds", "3000"]);
        // That ends the connections of the user.
        master.command(&["ACL", "DELUSER", REPLICA[0]]);
        let cut = wait_blocking(|| master.info("replication").contains("connected_slaves:0"));
        assert!(cut, "the replicas are still connected");
    }

    /// Lets a master have replicas again.
    pub fn restore_replication(&self, master: &Server) {
        master.command(&[&["ACL", "SETUSER"][..], &REPLICA[..]].concat());
    }

    /// What each sentinel says of its open connections, a line for each of them. That of this question is among them.
    pub fn clients(&self) -> Vec<String> {
        let lists = self.tell(&["CLIENT", "LIST"]).into_iter();
        lists.map(|it| redis::from_redis_value(it).unwrap()).collect()
    }

    /// One command to every sentinel, and what each of them answers.
    pub fn tell(&self, words: &[&str]) -> Vec<Value> {
        self.ports.iter().map(|port| ask(*port, None, words).unwrap()).collect()
    }
}

/// How many entries a question about the master is answered with.
fn count(port: u16, password: Option<&str>, question: &str) -> usize {
    match ask(port, password, &["SENTINEL", question, MASTER]) {
        Ok(Value::Array(entries)) => entries.len(),
        _ => 0,
    }
}

fn ask(port: u16, password: Option<&str>, words: &[&str]) -> redis::RedisResult<Value> {
    let login = password.map(|it| format!(":{it}@")).unwrap_or_default();
    let client = redis::Client::open(format!("redis://{login}127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(LIMIT)?;
    connection.set_read_timeout(Some(LIMIT))?;
    redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
}
