//! The workloads, each a file. A workload has cases; each client of a case gives one sample in each
//! round, one after the other, so that a slow machine slows all of them.

mod asked;
mod contended;
mod cost;
mod far;
mod faults;
mod first_lock;
mod growth;
mod herd;
mod kinds;
mod latency;
mod many;
mod native;
mod overload;
mod peers;
mod pinned;
pub(crate) mod processes;
mod sets;
pub(crate) mod throughput;

use std::{fmt, time::Duration};

use redlock_tests::Nodes;
use tokio::runtime::{self, Runtime};

use crate::{
    client::{Client, Which},
    load,
    metric::Sample,
};

/// The data that all workloads use.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The servers; a workload with fewer nodes uses the first of them.
    pub(crate) nodes: Nodes,
    /// Takes some minutes in all instead of half an hour: coarse, to see that everything runs.
    pub(crate) quick: bool,
}

impl Bench {
    /// One of two, by how thorough the run is.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The URLs of the first servers.
    pub(crate) fn urls(&self, nodes: usize) -> Vec<String> {
        self.nodes.urls().into_iter().take(nodes).collect()
    }

    /// A client of the first `nodes` servers, which has worked for a while with `tasks` tasks.
    async fn client<C: Client>(&self, nodes: usize, tasks: usize) -> C {
        let client = C::open(&self.urls(nodes)).await;
        client.ready().await;
        load::uncontended(&client, tasks, WARM_UP).await;
        client
    }
}

/// One question, with all clients that it is asked of.
pub(crate) struct Case<'a> {
    /// What is special about it.
    pub(crate) label: String,
    /// The clients that take part.
    pub(crate) clients: &'static [Which],
    /// Measures one client, once.
    pub(crate) sample: Box<dyn Fn(Which) -> Sample + 'a>,
}

impl fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("label", &self.label).finish_non_exhaustive()
    }
}

/// A kind of work.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// The purpose, in one line.
    pub(crate) about: &'static str,
    /// Rounds of a full run and of a quick one.
    pub(crate) rounds: (usize, usize),
    /// The cases.
    pub(crate) cases: for<'a> fn(&'a Bench) -> Vec<Case<'a>>,
}

/// All of them, in the order in which they run.
pub(crate) const ALL: &[Workload] = &[
    latency::WORKLOAD,
    throughput::WORKLOAD,
    pinned::WORKLOAD,
    cost::WORKLOAD,
    contended::WORKLOAD,
    herd::WORKLOAD,
    processes::WORKLOAD,
    growth::WORKLOAD,
    far::WORKLOAD,
    faults::WORKLOAD,
    first_lock::WORKLOAD,
    many::WORKLOAD,
    native::WORKLOAD,
    overload::WORKLOAD,
    sets::WORKLOAD,
    kinds::WORKLOAD,
    peers::WORKLOAD,
];

/// Workloads with this number of tasks or locks, without contention, on both runtimes.
fn uncontended<'a>(
    numbers: [usize; 3],
    what: &str,
    sample: impl Fn(Which, Flavor, usize) -> Sample + Copy + 'a,
) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    for flavor in Flavor::ALL {
        for number in numbers {
            let plural = if number == 1 { "" } else { "s" };
            cases.push(Case {
                label: format!("{number} {what}{plural}, {}", flavor.name()),
                clients: &[Which::Bare, Which::Ours, Which::Fenced, Which::Rslock, Which::Sockets],
                sample: Box::new(move |which| sample(which, flavor, number)),
            });
        }
    }
    cases
}

/// Few and many tasks of one process that want the same lock.
fn contended<'a>(sample: impl Fn(Which, usize) -> Sample + Copy + 'a) -> Vec<Case<'a>> {
    let case = |tasks| Case {
        label: format!("{tasks} tasks"),
        clients: &[
            Which::Mutex,
            Which::Ours,
            Which::Fenced,
            Which::Rslock,
            Which::Bare,
            Which::Queued,
        ],
        sample: Box::new(move |which| sample(which, tasks)),
    };
    [16, 128].map(case).into()
}

/// The runtimes that programs use, the same for every client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// As `#[tokio::main]` makes it: one worker for each core.
    MultiThread,
    /// `#[tokio::main(flavor = "current_thread")]`.
    CurrentThread,
}

impl Flavor {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::MultiThread, Self::CurrentThread];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MultiThread => "multi-thread",
            Self::CurrentThread => "current-thread",
        }
    }

    /// A new runtime: no work of an earlier client goes on beside the next client.
    pub(crate) fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::MultiThread => runtime::Builder::new_multi_thread(),
            Self::CurrentThread => runtime::Builder::new_current_thread(),
        };
        builder.enable_all().build().expect("a runtime")
    }
}

/// How long a client works before it is measured.
const WARM_UP: Duration = Duration::from_millis(150);
