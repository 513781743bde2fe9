//! The identity of a server, as its `INFO` tells it (rule 16).

use std::time::Duration;

use redis::{Pipeline, Value};

use crate::node::Identity;

/// The sections of `INFO` that are asked for, one by one: several at once is Redis 7.
const SECTIONS: [&str; 3] = ["server", "replication", "memory"];

/// How many answers [`read`] needs.
pub(super) const QUESTIONS: usize = SECTIONS.len();

/// Asks for what [`read`] needs.
pub(super) fn questions() -> Pipeline {
    let mut questions = Pipeline::with_capacity(QUESTIONS);
    for section in SECTIONS {
        questions.cmd("INFO").arg(section);
    }
    questions
}

const IS_REPLICA: &str =
    "it is a replica: a node is an independent master; give the address of a master";

/// The identity of the server, as far as the server tells it. The error says that the server is a
/// replica.
pub(super) fn read(answers: &[Value]) -> Result<Identity, String> {
    let mut identity = Identity::default();
    for answer in answers {
        let (Value::BulkString(_) | Value::VerbatimString { .. }) = answer else { continue };
        let Ok(text) = redis::from_redis_value_ref::<String>(answer) else { continue };
        for (field, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match (field, value) {
                // An active replica takes writes, which those of another server overwrite.
                ("role", "slave" | "replica" | "active-replica") => {
                    return Err(IS_REPLICA.to_owned());
                }
                ("run_id", run_id) if !run_id.is_empty() => identity.run_id = Some(run_id.into()),
                // Zeros where it followed no server.
                ("master_replid2", id) if id.bytes().any(|it| it != b'0') => {
                    identity.followed = Some(id.into());
                }
                ("uptime_in_seconds", uptime) => {
                    identity.uptime = uptime.parse().ok().map(at_least);
                }
                ("maxmemory_policy", policy) if policy != "noeviction" => {
                    identity.evicts = Some(policy.into());
                }
                _ => {}
            }
        }
    }
    Ok(identity)
}

/// The least time that has passed when a server reports this many seconds. The server subtracts two
/// times in whole seconds, so its figure may be too large by almost a second.
fn at_least(seconds: u64) -> Duration {
    Duration::from_secs(seconds.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_master_tells_its_identity() {
        let answers = [
            bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n"),
            bulk("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
            bulk("# Memory\r\nmaxmemory_policy:allkeys-lru\r\n"),
        ];
        let identity = read(&answers).unwrap();
        assert_eq!(identity.run_id.as_deref(), Some("abc"));
        assert_eq!(identity.uptime, Some(Duration::from_secs(11)), "started late in a second");
        assert_eq!(identity.evicts.as_deref(), Some("allkeys-lru"));
    }

    #[test]
    fn an_identity_that_a_server_does_not_tell_is_unknown() {
        assert_eq!(read(&[Value::Nil, bulk("no: idea"), Value::Int(3)]), Ok(Identity::default()));
        let calm = [bulk("run_id:\r\nmaxmemory_policy:noeviction\r\nuptime_in_seconds:soon\r\n")];
        assert_eq!(read(&calm), Ok(Identity::default()));
    }

    #[test]
    fn a_replica_is_no_node() {
        for role in ["slave", "replica", "active-replica"] {
            let answers = [bulk("run_id:abc\r\n"), bulk(&format!("role:{role}\r\n"))];
            assert!(read(&answers).unwrap_err().contains("replica"), "{role}");
        }
    }

    #[test]
    fn a_master_tells_which_one_it_followed() {
        for (id, followed) in [("0".repeat(40), None), ("a0".repeat(20), Some("a0".repeat(20)))] {
            let identity = read(&[bulk(&format!("master_replid2:{id}\r\n"))]).unwrap();
            assert_eq!(identity.followed.as_deref(), followed.as_deref());
        }
    }
}
