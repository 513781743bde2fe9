//! Which charts are drawn of a run.

use super::chart::Chart;
use crate::{client::Which, metric::Metric, results::Results};

/// A chart of one metric in some cases of one workload.
struct Plot {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    workload: &'static str,
    metric: Metric,
    /// Which cases, by what their labels end with.
    cases: &'static str,
    logarithmic: bool,
}

const PLOTS: &[Plot] = &[
    Plot {
        file: "latency-p50.svg",
        title: "An idle lock: lock and release, p50",
        unit: "µs, multi-thread runtime; lower is better",
        workload: "latency",
        metric: Metric::P50,
        cases: "multi-thread",
        logarithmic: false,
    },
    Plot {
        file: "latency-p99.svg",
        title: "An idle lock: lock and release, p99",
        unit: "µs, multi-thread runtime; lower is better",
        workload: "latency",
        metric: Metric::P99,
        cases: "multi-thread",
        logarithmic: false,
    },
    Plot {
        file: "throughput-multi-thread.svg",
        title: "Many idle locks, multi-thread runtime",
        unit: "locks and releases a second; higher is better",
        workload: "throughput",
        metric: Metric::PerSecond,
        cases: "multi-thread",
        logarithmic: false,
    },
    Plot {
        file: "throughput-current-thread.svg",
        title: "Many idle locks, current-thread runtime",
        unit: "locks and releases a second; higher is better",
        workload: "throughput",
        metric: Metric::PerSecond,
        cases: "current-thread",
        logarithmic: false,
    },
    Plot {
        file: "contended.svg",
        title: "One lock, tasks in a loop, held for 1 ms",
        unit: "turns a second; `mutex` is what the hold allows; higher is better",
        workload: "contended",
        metric: Metric::PerSecond,
        cases: "tasks",
        logarithmic: false,
    },
    Plot {
        file: "contended-longest-wait.svg",
        title: "One lock, tasks in a loop, held for 1 ms: longest wait",
        unit: "ms, logarithmic; lower is better",
        workload: "contended",
        metric: Metric::LongestWait,
        cases: "tasks",
        logarithmic: true,
    },
    Plot {
        file: "herd.svg",
        title: "One lock that many want once, held for 1 ms",
        unit: "turns a second; `mutex` is what the hold allows; higher is better",
        workload: "herd",
        metric: Metric::PerSecond,
        cases: "tasks",
        logarithmic: false,
    },
    Plot {
        file: "processes-longest-wait.svg",
        title: "One lock, 4 processes of 4 tasks: longest wait",
        unit: "ms, logarithmic; lower is better",
        workload: "processes",
        metric: Metric::LongestWait,
        cases: "tasks",
        logarithmic: true,
    },
    Plot {
        file: "growth.svg",
        title: "One lock, ever more clients of one task: pace",
        unit: "turns a second; `mutex` is what the hold allows; higher is better",
        workload: "growth",
        metric: Metric::PerSecond,
        cases: "clients",
        logarithmic: false,
    },
    Plot {
        file: "growth-commands.svg",
        title: "One lock, ever more clients of one task: commands",
        unit: "sent to all nodes for one turn, logarithmic; lower is better",
        workload: "growth",
        metric: Metric::Sent,
        cases: "clients",
        logarithmic: true,
    },
    Plot {
        file: "growth-longest-wait.svg",
        title: "One lock, ever more clients of one task: longest wait",
        unit: "ms, logarithmic; lower is better",
        workload: "growth",
        metric: Metric::LongestWait,
        cases: "clients",
        logarithmic: true,
    },
    Plot {
        file: "growth-idle.svg",
        title: "50 clients that wait for a lock that stays held",
        unit: "commands a second of each client to all nodes, logarithmic; lower is better",
        workload: "growth",
        metric: Metric::WaiterCommands,
        cases: "waiters",
        logarithmic: true,
    },
    Plot {
        file: "far-share.svg",
        title: "A client of 8 tasks against a client of one",
        unit: "turns of the single task, those of each of the 8 being 1; by distance of the nodes",
        workload: "far",
        metric: Metric::Share,
        cases: "against 1",
        logarithmic: false,
    },
    Plot {
        file: "far-longest-wait.svg",
        title: "A client of 8 tasks against a client of one: longest wait",
        unit: "ms, logarithmic, by the distance of the nodes; lower is better",
        workload: "far",
        metric: Metric::LongestWait,
        cases: "against 1",
        logarithmic: true,
    },
    Plot {
        file: "overload.svg",
        title: "More callers than two processors serve",
        unit: "locks and releases a second; higher is better",
        workload: "overload",
        metric: Metric::PerSecond,
        cases: "callers",
        logarithmic: false,
    },
    Plot {
        file: "pinned.svg",
        title: "Idle locks, client and servers pinned, together or apart",
        unit: "µs, lock and release, p50, logarithmic; lower is better",
        workload: "pinned",
        metric: Metric::P50,
        cases: "",
        logarithmic: true,
    },
    Plot {
        file: "faults-p99.svg",
        title: "Nodes that hang or die: lock and release, p99",
        unit: "µs, logarithmic; lower is better",
        workload: "faults",
        metric: Metric::P99,
        cases: "",
        logarithmic: true,
    },
];

/// The name and the text of each file; what was not measured has none.
pub(super) fn draw(results: &Results) -> Vec<(&'static str, String)> {
    PLOTS.iter().filter_map(|plot| Some((plot.file, plot.chart(results)?.svg()))).collect()
}

impl Plot {
    fn chart(&self, results: &Results) -> Option<Chart> {
        let cases: Vec<&str> = results
            .cases(self.workload)
            .into_iter()
            .filter(|case| case.ends_with(self.cases))
            .collect();
        let takes_part = |which: &Which| {
            cases.iter().any(|case| results.row(self.workload, case, *which).is_some())
        };
        let clients: Vec<Which> = Which::ALL.into_iter().filter(takes_part).collect();
        if clients.is_empty() {
            return None;
        }
        let figures = |case: &&str| {
            let of = |which: &Which| {
                results.row(self.workload, case, *which).and_then(|row| row.figure(self.metric))
            };
            let label = case.split(", ").next().unwrap_or(case).to_owned();
            (label, clients.iter().map(of).collect())
        };
        let groups = cases.iter().map(figures).collect();
        Some(Chart {
            title: self.title.to_owned(),
            unit: self.unit.to_owned(),
            groups,
            series: clients,
            logarithmic: self.logarithmic,
        })
    }
}
