//! The targets of redlock-core, and whether it reaches them.

use std::fmt;

use crate::{client::Which, hold, metric::Metric, results::Results, workload::throughput::HALVES};

/// One figure with its limit.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) what: String,
    /// `None` when the run did not measure it.
    pub(crate) figure: Option<f64>,
    pub(crate) limit: Limit,
}

/// The limit that a figure has to keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// Whether the figure is within the limit.
    pub(crate) fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(limit) => figure <= limit,
            Self::AtLeast(limit) => figure >= limit,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

use Limit::{AtLeast, AtMost};

/// All of them, with what this run says.
pub(crate) fn targets(results: &Results) -> Vec<Target> {
    let run = Run(results);
    let mut targets = Vec::new();
    let mut add = |what: String, figure: Option<f64>, limit: Limit| {
        targets.push(Target { what, figure, limit });
    };

    for flavor in ["multi-thread", "current-thread"] {
        let case = format!("5 nodes, {flavor}");
        let figure = |metric| run.by(Which::Bare, "latency", &case, metric);
        add(format!("latency, {case}: p50 x bare"), figure(Metric::P50), AtMost(1.10));
        add(format!("latency, {case}: p99 x bare"), figure(Metric::P99), AtMost(1.25));
        add(
            format!("latency, {case}: commands a node"),
            run.ours("latency", &case, Metric::Commands),
            // One SET and one delete. More commands come only from the boundaries of the
            // measurement.
            AtMost(2.01),
        );
    }
    for flavor in ["multi-thread", "current-thread"] {
        let case = format!("1 node, {flavor}");
        let figure = run.by(Which::Bare, "latency", &case, Metric::P50);
        add(format!("latency, {case}: p50 x bare"), figure, AtMost(1.10));
    }
    for case in ["1 task on 1 node together", "1 task on 1 node apart"] {
        let figure = run.by(Which::Bare, "pinned", case, Metric::P50);
        add(format!("pinned, {case}: p50 x bare"), figure, AtMost(1.10));
    }
    let apart = "64 tasks on 5 nodes apart";
    let figure = run.by(Which::Bare, "pinned", apart, Metric::PerSecond);
    add(format!("pinned, {apart}: x bare"), figure, AtLeast(1.0));
    for flavor in ["multi-thread", "current-thread"] {
        for (tasks, least) in [(64, 1.0), (512, 2.5)] {
            let case = format!("{tasks} tasks, {flavor}");
            let figure = run.by(Which::Bare, "throughput", &case, Metric::PerSecond);
            add(format!("throughput, {case}: x bare"), figure, AtLeast(least));
        }
    }
    let pace = |flavor| run.ours("throughput", &format!("64 tasks, {flavor}"), Metric::PerSecond);
    let figure = pace("multi-thread").zip(pace("current-thread")).map(|(it, other)| it / other);
    add("throughput, 64 tasks: multi-thread x current-thread".into(), figure, AtLeast(1.0));
    let halves = run.ours("throughput", HALVES, Metric::PerSecond);
    let figure = pace("multi-thread").zip(halves).map(|(it, other)| it / other);
    add(format!("throughput, 64 tasks, multi-thread: x {HALVES}"), figure, AtLeast(0.9));
    for tasks in [16, 128] {
        let case = format!("{tasks} tasks");
        let ours = |metric| run.ours("contended", &case, metric);
        let of_hold = run.by(Which::Mutex, "contended", &case, Metric::PerSecond);
        add(format!("contended, {case}: part of what the hold allows"), of_hold, AtLeast(0.95));
        add(format!("contended, {case}: Jain"), ours(Metric::Jain), AtLeast(0.99));
        add(
            format!("contended, {case}: longest wait by tasks x hold"),
            run.wait_by_turn("contended", &case, tasks),
            AtMost(1.5),
        );
        add(format!("contended, {case}: commands a node"), ours(Metric::Commands), AtMost(0.2));
    }
    for tasks in [16, 128] {
        let case = format!("{tasks} tasks");
        let of_hold = run.by(Which::Mutex, "herd", &case, Metric::PerSecond);
        add(format!("herd, {case}: part of what the hold allows"), of_hold, AtLeast(0.9));
    }
    {
        let case = "4 x 4 tasks";
        let ours = |metric| run.ours("processes", case, metric);
        let of_hold = run.by(Which::Mutex, "processes", case, Metric::PerSecond);
        add("processes: part of what the hold allows".into(), of_hold, AtLeast(0.8));
        add("processes: Jain".into(), ours(Metric::Jain), AtLeast(0.95));
        add("processes: least share of a process".into(), ours(Metric::LeastShare), AtLeast(0.5));
        add("processes: longest wait in ms".into(), ours(Metric::LongestWait), AtMost(250.0));
        add("processes: commands over all nodes".into(), ours(Metric::Sent), AtMost(15.0));
    }
    fenced(&run, &mut add);
    growth(&run, &mut add);
    far(&run, &mut add);
    overload(&run, &mut add);
    for case in ["one hung", "one killed", "two hung"] {
        let ours = |metric| run.ours("faults", case, metric);
        add(format!("{case}: p50 x healthy"), ours(Metric::P50Healthy), AtMost(1.2));
        if case != "two hung" {
            add(format!("{case}: p99 x healthy"), ours(Metric::P99Healthy), AtMost(1.2));
        }
    }
    let recovery = run.ours("faults", "two hung", Metric::Recovery);
    add("two hung: recovery in ms".into(), recovery, AtMost(1000.0));
    let first_lock = run.ours("first-lock", "one black-holed", Metric::FirstLockRatio);
    add("first lock, one black-holed: x healthy".into(), first_lock, AtMost(2.0));
    let violations = results.rows().iter().any(|row| row.figure(Metric::Violations).is_some());
    let violations = violations.then(|| results.violations());
    add("two holders of one lock at once".into(), violations, AtMost(0.0));
    targets
}

/// Locks with a fencing token, beside those without one.
fn fenced(run: &Run<'_>, add: &mut impl FnMut(String, Option<f64>, Limit)) {
    for flavor in ["multi-thread", "current-thread"] {
        let case = format!("5 nodes, {flavor}");
        let figure = run.fenced("latency", &case, Metric::P50);
        add(format!("fenced latency, {case}: p50 x ours"), figure, AtMost(1.5));
    }
    for tasks in [16, 128] {
        let case = format!("{tasks} tasks");
        let figure = run.fenced("contended", &case, Metric::PerSecond);
        add(format!("fenced contended, {case}: x ours"), figure, AtLeast(0.95));
        let commands = run
            .0
            .row("contended", &case, Which::Fenced)
            .and_then(|row| row.figure(Metric::Commands));
        add(format!("fenced contended, {case}: commands a node"), commands, AtMost(0.3));
    }
}

/// Clients of one task each: 64 of them against 4.
fn growth(run: &Run<'_>, add: &mut impl FnMut(String, Option<f64>, Limit)) {
    let (few, many) = ("4 clients", "64 clients");
    let ours = |case, metric| run.ours("growth", case, metric);
    let ratio = |metric| Some(ours(many, metric)? / ours(few, metric)?);
    let commands = "commands sent for a turn";
    add(format!("growth, {many}: {commands}"), ours(many, Metric::Sent), AtMost(20.0));
    add(format!("growth, {many}: {commands} x {few}"), ratio(Metric::Sent), AtMost(1.2));
    add(format!("growth, {many}: turns x {few}"), ratio(Metric::PerSecond), AtLeast(0.9));
    add(format!("growth, {many}: Jain"), ours(many, Metric::Jain), AtLeast(0.95));
    let wait = |clients: f64, case| {
        let cycle = clients / ours(case, Metric::PerSecond)?;
        Some(ours(case, Metric::LongestWait)? / 1000.0 / cycle)
    };
    let longest = "longest wait by clients / pace";
    add(format!("growth, {many}: {longest}"), wait(64.0, many), AtMost(2.0));
    let processes = "100 processes";
    add(format!("growth, {processes}: {commands}"), ours(processes, Metric::Sent), AtMost(20.0));
    add(format!("growth, {processes}: Jain"), ours(processes, Metric::Jain), AtLeast(0.95));
    add(format!("growth, {processes}: {longest}"), wait(100.0, processes), AtMost(2.0));
    let waiter = ours("50 idle waiters", Metric::WaiterCommands);
    add("growth: commands a second of a client that waits".into(), waiter, AtMost(1.0));
}

/// A client of many tasks against a client of one, and 64 clients, far from the nodes.
fn far(run: &Run<'_>, add: &mut impl FnMut(String, Option<f64>, Limit)) {
    for milliseconds in [0, 1, 5, 20] {
        let case = format!("{milliseconds} ms, 8 tasks against 1");
        let ours = |metric| run.ours("far", &case, metric);
        add(format!("far, {case}: share of the single task"), ours(Metric::Share), AtLeast(0.5));
        add(format!("far, {case}: longest wait in ms"), ours(Metric::LongestWait), AtMost(1000.0));
    }
    let case = "5 ms, 64 clients";
    let sent = run.ours("far", case, Metric::Sent);
    add(format!("far, {case}: commands sent for a turn"), sent, AtMost(30.0));
}

/// More callers than the processors serve.
fn overload(run: &Run<'_>, add: &mut impl FnMut(String, Option<f64>, Limit)) {
    let cases = [1000, 5000, 20_000].map(|callers| format!("{callers} callers"));
    let ours = |case: &String, metric| run.ours("overload", case, metric);
    for case in &cases {
        add(format!("overload, {case}: held locks lost"), ours(case, Metric::Lost), AtMost(0.0));
        let kinds = [Metric::NoQuorum, Metric::FalselyHeld, Metric::Failures];
        let refused = kinds.into_iter().map(|metric| ours(case, metric)).sum();
        add(format!("overload, {case}: refused"), refused, AtMost(0.0));
    }
    let best = cases.iter().filter_map(|case| ours(case, Metric::PerSecond)).reduce(f64::max);
    let most = || Some(ours(&cases[2], Metric::PerSecond)? / best?);
    add(format!("overload, {}: part of the best pace", cases[2]), most(), AtLeast(0.5));
}

struct Run<'a>(&'a Results);

impl Run<'_> {
    fn ours(&self, workload: &str, case: &str, metric: Metric) -> Option<f64> {
        self.0.row(workload, case, Which::Ours)?.figure(metric)
    }

    fn by(&self, measure: Which, workload: &str, case: &str, metric: Metric) -> Option<f64> {
        let measure = self.0.row(workload, case, measure)?;
        self.0.row(workload, case, Which::Ours)?.ratio(measure, metric)
    }

    /// The figure of fenced locks, divided by that of plain locks.
    fn fenced(&self, workload: &str, case: &str, metric: Metric) -> Option<f64> {
        let plain = self.0.row(workload, case, Which::Ours)?;
        self.0.row(workload, case, Which::Fenced)?.ratio(plain, metric)
    }

    /// The longest wait, divided by the time in which every client has one turn at the pace that
    /// the hold allows.
    fn wait_by_turn(&self, workload: &str, case: &str, tasks: u32) -> Option<f64> {
        let pace = self.0.row(workload, case, Which::Mutex)?.figure(Metric::PerSecond)?;
        // A hold that was measured too short would make the figure look better than it is.
        let hold = (1.0 / pace).max(hold::LENGTH.as_secs_f64());
        let longest = self.ours(workload, case, Metric::LongestWait)? / 1000.0;
        Some(longest / (f64::from(tasks) * hold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reached_by_not_being_measured() {
        assert!(targets(&Results::default()).iter().all(|target| target.figure.is_none()));
    }

    #[test]
    fn a_target_counts_ours_against_the_measure() {
        let mut results = Results::default();
        for (which, pace) in [(Which::Mutex, 900.0), (Which::Ours, 450.0)] {
            let sample = vec![(Metric::PerSecond, pace), (Metric::LongestWait, 32.0)];
            results.add("contended", "16 tasks", which, sample);
        }
        let targets = targets(&results);
        let figure = |what: &str| targets.iter().find(|it| it.what.contains(what)).unwrap().figure;
        assert_eq!(figure("16 tasks: part of what"), Some(0.5));
        let turns = figure("16 tasks: longest wait").unwrap();
        assert!((turns - 1.8).abs() < 1e-9, "{turns}");
        assert!(AtMost(1.8).holds(1.8) && !AtLeast(0.95).holds(0.5));
    }
}
