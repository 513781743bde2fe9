//! The redis-servers of a run, and their counters.

use std::str::FromStr;

use redlock_tests::{Nodes, Server};

/// The most nodes that a workload uses. A workload with fewer nodes uses the first of them.
pub(crate) const MOST_NODES: usize = 5;

/// Commands that clients are not charged for. Most of them are called by scripts, which count as
/// one with what they call: no client here sends them itself. `info` is how the figures are read.
/// `set` and `pttl` are called and sent: where clients wait in a queue, [`Sent`](crate::sent::Sent)
/// counts instead.
const FREE: [&str; 13] = [
    "get", "del", "pexpire", "exists", "time", "zadd", "zcard", "zrange", "zrank", "zrem",
    "zscore", "info", "flushall",
];

/// What servers have counted since they started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    /// Commands that clients sent; a script counts as one.
    pub(crate) commands: u64,
    /// How often a server read from a client: commands that came together count as one.
    pub(crate) reads: u64,
    /// Microseconds on a processor.
    pub(crate) processor: f64,
}

impl Counters {
    /// What was counted between `earlier` and this.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            commands: self.commands - earlier.commands,
            reads: self.reads - earlier.reads,
            processor: self.processor - earlier.processor,
        }
    }
}

/// The counters of these servers together.
pub(crate) fn count(servers: &[Server]) -> Counters {
    servers.iter().fold(Counters::default(), |sum, server| Counters {
        commands: sum.commands + commands(&server.info("commandstats")),
        reads: sum.reads + field(&server.info("stats"), "total_reads_processed").unwrap_or(0),
        processor: sum.processor + processor(&server.info("cpu")),
    })
}

/// Deletes the keys that earlier runs have left.
pub(crate) fn clear(nodes: &Nodes) {
    for server in nodes.iter() {
        server.command(&["FLUSHALL"]);
    }
}

fn commands(info: &str) -> u64 {
    info.lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
        .filter(|(name, _)| !FREE.contains(name))
        .filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok())
        .sum()
}

fn processor(info: &str) -> f64 {
    let seconds = |name| field::<f64>(info, name).unwrap_or_default();
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

fn field<T: FromStr>(info: &str, name: &str) -> Option<T> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| *found == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_and_what_it_calls_are_one_command() {
        let info = "# Commandstats\r\n\
                    cmdstat_set:calls=10,usec=99,usec_per_call=9.90\r\n\
                    cmdstat_evalsha:calls=7,usec=9\r\n\
                    cmdstat_get:calls=7,usec=9\r\n\
                    cmdstat_del:calls=6,usec=9\r\n\
                    cmdstat_client|tracking:calls=1,usec=9\r\n\
                    cmdstat_info:calls=3,usec=9\r\n";
        assert_eq!(commands(info), 18);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Stats\r\ntotal_reads_processed:42\r\ntotal_reads:1\r\n";
        assert_eq!(field(info, "total_reads_processed"), Some(42));
        assert_eq!(field::<u64>(info, "total"), None);
    }
}
