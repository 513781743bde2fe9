//! A Redis Cluster.

use std::time::{Duration, Instant};

use redis::Value;

use crate::{
    server::Server,
    wait::{LIMIT, wait_blocking},
};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// A cluster of masters, each with a replica if asked for. It fails over within a few seconds.
#[derive(Debug)]
pub struct Cluster {
    /// The masters at first.
    pub masters: Vec<Server>,
    /// The replica of each.
    pub replicas: Vec<Server>,
}

impl Cluster {
    /// Three masters that share the slots; returns once all of them know it.
    pub fn start(with_replicas: bool) -> Self {
        let kind = || {
            Server::builder().argument(&["--cluster-enabled", "yes"]).argument(&[
                "--cluster-node-timeout",
                "1000",
                "--cluster-require-full-coverage",
                "no",
                "--repl-ping-replica-period",
                "1",
                "--cluster-config-file",
                "cluster.conf",
            ])
        };
        let masters: Vec<_> = (0..3).map(|_| kind().start()).collect();
        let count = if with_replicas { 3 } else { 0 };
        let replicas: Vec<_> = (0..count).map(|_| kind().start()).collect();
        let cluster = Self { masters, replicas };
        let first = &cluster.masters[0];
        for (index, master) in (0..).zip(&cluster.masters) {
            let bounds = [index, index + 1].map(|it: u32| it * u32::from(SLOTS) / 3);
            let (start, end) = (bounds[0].to_string(), (bounds[1] - 1).to_string());
            master.command(&["CLUSTER", "ADDSLOTSRANGE", &start, &end]);
            master.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for server in cluster.all() {
            let port = server.port().to_string();
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        cluster.wait("know each other", |server| {
            info(server).contains(&format!("cluster_known_nodes:{}", 3 + count))
        });
        for (replica, master) in cluster.replicas.iter().zip(&cluster.masters) {
            replica.command(&["CLUSTER", "REPLICATE", &id(master)]);
        }
        cluster.wait("are in service", |server| {
            let info = info(server);
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        });
        for master in &cluster.masters[..count] {
            let ready = wait_blocking(|| master.replicas_in_step() > 0);
            assert!(ready, "a replica does not connect");
        }
        cluster
    }

    /// The URLs of the masters.
    pub fn urls(&self) -> Vec<String> {
        self.masters.iter().map(Server::url).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Server> {
        self.masters.iter().chain(&self.replicas)
    }

    fn wait(&self, what: &str, condition: impl Fn(&Server) -> bool) {
        for server in self.all() {
            let done = wait_blocking(|| condition(server));
            assert!(done, "the servers do not {what} within {LIMIT:?}: {}", info(server));
        }
    }

    /// The index of the master that has the slot of this key, as the first server says.
    pub fn owner(&self, key: &str) -> usize {
        let slot = slot(&self.masters[0], key);
        let Value::Array(shards) = self.masters[0].command(&["CLUSTER", "SLOTS"]) else {
            panic!("no slots")
        };
        for shard in shards {
            let (first, last, (_, port)): (u16, u16, (String, u16)) = {
                let Value::Array(entry) = shard else { panic!("no shard") };
                let Value::Array(master) = &entry[2] else { panic!("no master") };
                let get = |value: &Value| redis::from_redis_value::<u16>(value.clone()).unwrap();
                (get(&entry[0]), get(&entry[1]), (String::new(), get(&master[1])))
            };
            if (first..=last).contains(&slot) {
                return self.masters.iter().position(|it| it.port() == port).unwrap();
            }
        }
        panic!("no master has slot {slot}")
    }

    /// Makes a replica the master; returns once all servers know it.
    pub fn fail_over(&self, replica: &Server) {
        let follows = || replica.info("replication").contains("master_link_status:up");
        assert!(wait_blocking(follows), "it follows no master");
        let (id, begun) = (id(replica), Instant::now());
        let mut asked = None;
        while replica.info("replication").contains("role:slave") {
            assert!(begun.elapsed() < LIMIT, "it is not made a master");
            // The other masters do not vote twice within two seconds, and a try is over after five.
            if asked.is_none_or(|it: Instant| it.elapsed() > Duration::from_secs(6)) {
                replica.command(&["CLUSTER", "FAILOVER"]);
                asked = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.wait("know the new master", |server| {
            let nodes = server.command(&["CLUSTER", "NODES"]);
            let nodes: String = redis::from_redis_value(nodes).unwrap();
            nodes.lines().any(|line| line.starts_with(&id) && line.contains("master"))
        });
    }

    /// Begins to move the slot of a key to the master of this index: from now on, keys that are not there
    /// any more are asked for at the other end.
    pub fn begin_move(&self, key: &str, to: usize) {
        let slot = slot(&self.masters[0], key).to_string();
        let (from, to) = (&self.masters[self.owner(key)], &self.masters[to]);
        to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves the keys of the slot.
    pub fn move_keys(&self, key: &str, to: usize) {
        let slot = slot(&self.masters[0], key).to_string();
        let from = &self.masters[self.owner(key)];
        let port = self.masters[to].port().to_string();
        loop {
            let found = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            let keys: Vec<String> = redis::from_redis_value(found).unwrap();
            if keys.is_empty() {
                return;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            from.command(&words);
        }
    }

    /// Ends the move.
    pub fn end_move(&self, key: &str, to: usize) {
        let slot = slot(&self.masters[0], key).to_string();
        let owner = id(&self.masters[to]);
        // The new owner first: no moment without one.
        let others = (0..self.masters.len()).filter(|it| *it != to);
        for index in [to].into_iter().chain(others) {
            self.masters[index].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &owner]);
        }
    }
}

fn info(server: &Server) -> String {
    redis::from_redis_value(server.command(&["CLUSTER", "INFO"])).unwrap()
}

fn id(server: &Server) -> String {
    redis::from_redis_value(server.command(&["CLUSTER", "MYID"])).unwrap()
}

fn slot(server: &Server, key: &str) -> u16 {
    redis::from_redis_value(server.command(&["CLUSTER", "KEYSLOT", key])).unwrap()
}
