//! What the program prints.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    process::ExitCode,
    time::Duration,
};

use redlock_core::{LockState, LockStatus, NodeHealth, NodeState, NodeStatus, Waiter};
use serde_json::{Value, json};

use crate::exit::{Failure, INTERNAL, NO_QUORUM};

/// Prints the state of a lock.
pub(crate) fn status(resource: &str, status: &LockStatus, json: bool) -> Result<ExitCode, Failure> {
    let nodes = status.nodes();
    let answered = nodes.iter().filter(|it| !matches!(it.state, LockState::Unknown { .. })).count();
    let (state, words) = summary(status, answered);
    if json {
        let waiting: Vec<_> = status.waiting().iter().map(Waiter::client_name).collect();
        say_json(&json!({
            "resource": resource,
            "state": state,
            "holder": status.holder(),
            "remaining_ms": milliseconds(status.remaining()),
            "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
            "waiting": waiting,
        }))?;
    } else {
        let mut lines = vec![format!("{}: {words}", plain(resource))];
        lines.extend(nodes.iter().map(|it| format!("  {}: {}", it.node, on_node(&it.state))));
        let waiting = status.waiting().iter().map(Waiter::client_name);
        lines.extend(waiting.map(|name| format!("  waiting: {}", plain(name))));
        say(&lines.join("\n"))?;
    }
    Ok(quorum(answered, nodes.len()))
}

/// What a lock was before it was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Was {
    /// Some node said that a client has it.
    Held {
        /// It has a key without an expiry, so that nothing frees it but deleting it.
        never_expires: bool,
    },
    Free,
    /// So few nodes said what they have that a client may hold it all the same.
    Unknown,
}

impl Was {
    pub(crate) fn of(status: &LockStatus) -> Self {
        let states = || status.nodes().iter().map(|it| &it.state);
        let free = states().filter(|it| matches!(it, LockState::Free)).count();
        if states().any(|it| matches!(it, LockState::Held { .. })) {
            let stays =
                |it: &LockState| matches!(it, LockState::Held { remaining: Duration::MAX, .. });
            Self::Held { never_expires: states().any(stays) }
        } else if free * 2 > status.nodes().len() {
            Self::Free
        } else {
            Self::Unknown
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Held { .. } => "held",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

/// The state of a lock by the answers of a quorum: for programs, and in words.
fn summary(status: &LockStatus, answered: usize) -> (&'static str, String) {
    let left = status.remaining();
    match status.holder() {
        Some(holder) => ("held", format!("held by {}, {}", plain(holder), rest(left))),
        None if answered * 2 <= status.nodes().len() => {
            ("unknown", "unknown: too few nodes answer".to_owned())
        }
        None if left.is_zero() => ("free", "free".to_owned()),
        None => ("held", format!("held by {}, {}", holders(status), rest(left))),
    }
}

/// The clients that have a lock on nodes of which no quorum says the same.
fn holders(status: &LockStatus) -> String {
    let mut names = status.nodes().iter().filter_map(|node| match &node.state {
        LockState::Held { holder, .. } => Some(holder.as_deref()),
        _ => None,
    });
    let first = names.next().flatten();
    let others: Vec<_> = names.collect();
    match first {
        Some(name) if others.iter().all(|other| *other == first) => {
            let (on, all) = (1 + others.len(), status.nodes().len());
            format!("{} on {on} of {all} nodes", plain(name))
        }
        _ => "a client without a name or by several".to_owned(),
    }
}

fn on_node(state: &LockState) -> String {
    match state {
        LockState::Free => "free".to_owned(),
        LockState::Held { holder: Some(holder), remaining, .. } => {
            format!("held by {}, {}", plain(holder), rest(*remaining))
        }
        LockState::Held { remaining, .. } => format!("held, {}", rest(*remaining)),
        LockState::Unknown { error, .. } => format!("does not answer: {}", plain(&error.reason)),
        _ => "unknown".to_owned(),
    }
}

fn node(status: &NodeStatus) -> Value {
    let node = &*status.node;
    match &status.state {
        LockState::Free => json!({ "node": node, "state": "free" }),
        LockState::Held { holder, remaining, .. } => json!({
            "node": node,
            "state": "held",
            "holder": holder,
            "remaining_ms": milliseconds(*remaining),
        }),
        LockState::Unknown { error, .. } => {
            json!({ "node": node, "state": "unknown", "error": &*error.reason })
        }
        _ => json!({ "node": node, "state": "unknown" }),
    }
}

/// Prints that a lock was taken away, if a client had it.
pub(crate) fn released(
    resource: &str,
    now: bool,
    was: Was,
    json: bool,
) -> Result<ExitCode, Failure> {
    if json {
        say_json(&json!({
            "resource": resource,
            "state": was.name(),
            "was_held": matches!(was, Was::Held { .. }),
            "never_expires": was == Was::Held { never_expires: true },
            "deleted": now && was != Was::Free,
        }))?;
    } else {
        let done = match (was, now) {
            (Was::Free, _) => {
                "was free: nothing to take away. Is it the right name, and --key-prefix?"
            }
            (Was::Unknown, true) => "its state was unknown: deleted, if it was there",
            (Was::Unknown, false) => {
                "its state was unknown: taken away, if a client held it. Look again with inspect"
            }
            (Was::Held { .. }, true) => "deleted",
            (Was::Held { never_expires: true }, false) => {
                "taken away, but it never expires: use --now"
            }
            (Was::Held { never_expires: false }, false) => {
                "taken away, free when what is left of it has run out"
            }
        };
        say(&format!("{}: {done}", plain(resource)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints how each node is.
pub(crate) fn health(nodes: &[NodeHealth], json: bool) -> Result<ExitCode, Failure> {
    if json {
        let nodes: Vec<_> = nodes.iter().map(node_health).collect();
        say_json(&json!({ "nodes": nodes }))?;
    } else {
        let mut lines = Vec::new();
        for health in nodes {
            let state = match &health.state {
                NodeState::Up { latency, .. } => format!("up, answers within {latency:.1?}"),
                NodeState::Down { error, .. } => format!("down: {}", plain(&error.reason)),
                _ => "unknown".to_owned(),
            };
            let sits_out = health.sits_out.map_or_else(String::new, |left| {
                format!("; gives no votes for {} more", time(left))
            });
            lines.push(format!("{}: {state}{sits_out}", health.node));
            lines.extend(health.advice.iter().map(|line| format!("  advice: {}", plain(line))));
        }
        say(&lines.join("\n"))?;
    }
    let votes = |it: &&NodeHealth| it.is_up() && it.sits_out.is_none();
    Ok(quorum(nodes.iter().filter(votes).count(), nodes.len()))
}

fn node_health(health: &NodeHealth) -> Value {
    let error = match &health.state {
        NodeState::Down { error, .. } => Some(&*error.reason),
        _ => None,
    };
    let latency = match &health.state {
        NodeState::Up { latency, .. } => Some(fine_milliseconds(*latency)),
        _ => None,
    };
    json!({
        "node": &*health.node,
        "up": health.is_up(),
        "latency_ms": latency,
        "error": error,
        "sits_out_ms": health.sits_out.map(milliseconds),
        "advice": health.advice.iter().map(|it| &**it).collect::<Vec<_>>(),
    })
}

/// The exit code when so many of the nodes can be used.
fn quorum(answered: usize, nodes: usize) -> ExitCode {
    if answered * 2 > nodes { ExitCode::SUCCESS } else { NO_QUORUM.into() }
}

fn say_json(value: &Value) -> Result<(), Failure> {
    say(&format!("{value:#}"))
}

/// Prints lines.
pub(crate) fn say(lines: &str) -> Result<(), Failure> {
    let mut output = io::stdout();
    printed(writeln!(output, "{lines}").and_then(|()| output.flush()))
}

/// What a result of printing means. A reader that has gone wants no more lines.
pub(crate) fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(INTERNAL, format!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says something beside the output. What cannot be said changes nothing, least of all the exit code:
/// `eprintln!` would panic.
pub(crate) fn tell(message: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "redlock: {message}");
}

/// Names come from other programs: what would steer a terminal is shown, not sent.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|it| if it.is_control() { it.escape_default().collect() } else { vec![it] })
        .collect()
}

/// What is left of a key.
fn rest(span: Duration) -> String {
    if span == Duration::MAX { "never expires".to_owned() } else { format!("{} left", time(span)) }
}

fn time(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// None for a key that never expires.
fn milliseconds(span: Duration) -> Option<u64> {
    u64::try_from(span.as_millis()).ok()
}

/// To a microsecond: what is finer is noise.
fn fine_milliseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_three_decimals() {
        for (nanos, shown) in [(10_002_830, "10.003"), (412_345, "0.412"), (7_000_000, "7.0")] {
            let latency = fine_milliseconds(Duration::from_nanos(nanos));
            assert_eq!(json!(latency).to_string(), shown);
        }
    }

    #[test]
    fn what_would_steer_a_terminal_is_shown() {
        assert_eq!(plain("order:7 é"), "order:7 é");
        assert_eq!(plain("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\\r\\n");
    }
}
