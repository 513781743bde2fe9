//! The faults of servers, links and workers, drawn from the seed.

use std::{fmt, time::Duration};

use super::{FIRST_TO_KILL, NODES, WORKERS};
use crate::{Flow, chance::Chance};

/// Something that goes wrong, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) trouble: Trouble,
    pub(super) lasts: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    Servers {
        nodes: Vec<usize>,
        what: ServerTrouble,
    },
    /// The way from one worker to some servers.
    Links {
        worker: usize,
        nodes: Vec<usize>,
        what: LinkTrouble,
    },
    Worker {
        worker: usize,
        what: WorkerTrouble,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerTrouble {
    /// Killed; comes back without its data.
    Emptied,
    /// Saved, then killed; comes back with what it had on disk.
    Restarted,
    /// Killed; comes back with what it may have saved long ago.
    Crashed,
    /// SIGSTOP.
    Stopped,
    /// `CLIENT PAUSE`, of writes or of everything.
    Paused(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkTrouble {
    Flow {
        requests: Flow,
        replies: Flow,
    },
    /// Reset, and at once taken again.
    Cut,
    /// Reset, and refused for a while.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerTrouble {
    /// SIGSTOP.
    Stopped,
    /// SIGKILL. Another worker takes its place.
    Killed,
}

impl Fault {
    /// The names of all kinds, as reports order them.
    pub(super) const NAMES: [&str; 12] = [
        "server restarted empty",
        "server restarted with its data",
        "server crashed",
        "server stopped",
        "server paused",
        "link slow",
        "link in single bytes",
        "link silent",
        "link cut",
        "link refused",
        "worker stopped",
        "worker killed",
    ];

    pub(super) fn name(&self) -> &'static str {
        let index = match &self.trouble {
            Trouble::Servers { what, .. } => match what {
                ServerTrouble::Emptied => 0,
                ServerTrouble::Restarted => 1,
                ServerTrouble::Crashed => 2,
                ServerTrouble::Stopped => 3,
                ServerTrouble::Paused(_) => 4,
            },
            Trouble::Links { what, .. } => match what {
                LinkTrouble::Flow { requests: Flow::Delay(_), .. } => 5,
                LinkTrouble::Flow { requests: Flow::PerByte, .. } => 6,
                LinkTrouble::Flow { .. } => 7,
                LinkTrouble::Cut => 8,
                LinkTrouble::Refused => 9,
            },
            Trouble::Worker { what: WorkerTrouble::Stopped, .. } => 10,
            Trouble::Worker { what: WorkerTrouble::Killed, .. } => 11,
        };
        Self::NAMES[index]
    }

    pub(super) fn draw(chance: &mut Chance) -> Self {
        // Usually a minority, now and then any number.
        let count = if chance.percent(10) { 1 + chance.below(NODES) } else { 1 + chance.below(2) };
        let nodes = chance.distinct(count, NODES);
        let trouble = match chance.below(10) {
            0..4 => Trouble::Servers { nodes, what: draw_server_trouble(chance) },
            4..7 => {
                let worker = chance.below(WORKERS);
                Trouble::Links { worker, nodes, what: draw_link_trouble(chance) }
            }
            7..9 => {
                let worker = chance.below(WORKERS);
                Trouble::Worker { worker, what: WorkerTrouble::Stopped }
            }
            _ => {
                let worker = FIRST_TO_KILL + chance.below(WORKERS - FIRST_TO_KILL);
                Trouble::Worker { worker, what: WorkerTrouble::Killed }
            }
        };
        // From far below the shortest ttl to twice the longest.
        let lasts =
            if chance.percent(50) { chance.millis(5, 300) } else { chance.millis(300, 4000) };
        Self { trouble, lasts }
    }
}

fn draw_server_trouble(chance: &mut Chance) -> ServerTrouble {
    let mode = chance.pick(&["WRITE", "ALL"]);
    chance.pick(&[
        ServerTrouble::Emptied,
        ServerTrouble::Restarted,
        ServerTrouble::Crashed,
        ServerTrouble::Stopped,
        ServerTrouble::Stopped,
        ServerTrouble::Paused(mode),
    ])
}

fn draw_link_trouble(chance: &mut Chance) -> LinkTrouble {
    // Around the node timeout of 50 ms, so that some answers are in time.
    let delay = Flow::Delay(chance.millis(1, 80));
    let silent = chance.pick(&[Flow::Hold, Flow::Discard]);
    chance.pick(&[
        LinkTrouble::Flow { requests: delay, replies: delay },
        LinkTrouble::Flow { requests: Flow::PerByte, replies: Flow::PerByte },
        LinkTrouble::Flow { requests: silent, replies: silent },
        LinkTrouble::Flow { requests: silent, replies: Flow::Pass },
        LinkTrouble::Flow { requests: Flow::Pass, replies: silent },
        LinkTrouble::Cut,
        LinkTrouble::Refused,
    ])
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trouble, lasts } = self;
        write!(f, "{} for {lasts:?}: ", self.name())?;
        match trouble {
            Trouble::Servers { nodes, what } => write!(f, "servers {nodes:?}, {what:?}"),
            Trouble::Links { worker, nodes, what } => {
                write!(f, "worker {worker} to servers {nodes:?}, {what:?}")
            }
            Trouble::Worker { worker, .. } => write!(f, "worker {worker}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_drawn_and_some_hit_a_majority() {
        let mut chance = Chance::new(1);
        let faults: Vec<_> = (0..2000).map(|_| Fault::draw(&mut chance)).collect();
        let names: BTreeSet<_> = faults.iter().map(Fault::name).collect();
        assert_eq!(names, BTreeSet::from(Fault::NAMES));
        let hits = |fault: &Fault| match &fault.trouble {
            Trouble::Servers { nodes, .. } | Trouble::Links { nodes, .. } => nodes.len(),
            Trouble::Worker { .. } => 0,
        };
        assert!(faults.iter().any(|fault| hits(fault) > NODES / 2));
        let usual = faults.iter().filter(|fault| hits(fault) <= 2).count();
        assert!(usual > 1500, "{usual}");
    }
}
