//! Locks of other languages beside ours and rslock: one task on free locks, and 16 tasks that want one.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    sync::Mutex,
    time::Duration,
};

use super::{
    Bench, Case, Flavor, Workload,
    contended::{Contended, fairness},
    latency::Latency,
    processes::read_turns,
    throughput::NODES,
};
use crate::{
    client::{Peer, Program, Which},
    load::{self, Turns},
    metric::{Metric, Sample},
    stats,
};

const TASKS: usize = 16;

/// Interpreters and virtual machines need a moment until they are fast.
const SPAN: Duration = Duration::from_secs(5);

const CLIENTS: &[Which] = &[
    Which::Ours,
    Which::Rslock,
    Which::Peer(Peer::NodeRedlock),
    Which::Peer(Peer::Redsync),
    Which::Peer(Peer::Redisson),
];

pub(super) const WORKLOAD: Workload = Workload {
    name: "peers",
    about: "beside locks of other languages: one task on free locks, 16 on one lock, on 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let apart = move |which| match which {
        Which::Peer(peer) => run(bench, peer, Mode::Apart),
        ours => ours.visit(Latency { bench, flavor: Flavor::MultiThread, nodes: NODES }),
    };
    let one = move |which| match which {
        Which::Peer(peer) => run(bench, peer, Mode::One),
        ours => ours.visit(Contended { bench, tasks: TASKS }),
    };
    vec![
        Case { label: "1 task".into(), clients: CLIENTS, sample: Box::new(apart) },
        Case { label: format!("{TASKS} tasks"), clients: CLIENTS, sample: Box::new(one) },
    ]
}

/// What the tasks of a peer do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One task takes free locks.
    Apart,
    /// All tasks want one lock.
    One,
}

/// The figures of a peer; none where its language is not installed.
fn run(bench: &Bench, peer: Peer, mode: Mode) -> Sample {
    match built(peer) {
        Ok(program) => measure(bench, &program, mode),
        Err(missing) => {
            eprintln!("SKIPPED {}: {missing}", peer.name());
            Sample::new()
        }
    }
}

/// The program of a peer. It is built once.
fn built(peer: Peer) -> Result<Program, String> {
    static BUILT: Mutex<BTreeMap<&str, Result<Program, String>>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("no build panics");
    built.entry(peer.name()).or_insert_with(|| peer.build()).clone()
}

fn measure(bench: &Bench, program: &Program, mode: Mode) -> Sample {
    let span = bench.pick(SPAN, SPAN / 2);
    let (name, tasks) = match mode {
        Mode::Apart => ("apart", 1),
        Mode::One => ("one", TASKS),
    };
    let nodes = bench.urls(NODES).into_iter();
    let mut process = program
        .command()
        .args([name, &tasks.to_string(), &span.as_millis().to_string(), &load::fresh()])
        .args(nodes.map(|url| url.trim_start_matches("redis://").to_owned()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a program that was built can be started");
    let mut hears = process.stdin.take().expect("a pipe");
    let mut says = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut line = || says.next().and_then(Result::ok).expect("a peer speaks until its end");
    assert_eq!(line(), "ready", "a peer did not start");
    writeln!(hears, "go").expect("a peer hears");

    let (mut latencies, mut turns, mut violations) = (Vec::new(), Vec::<Turns>::new(), 0.0);
    loop {
        let line = line();
        match line.split_once(' ') {
            Some(("lock", micros)) => latencies.push(micros.parse().expect("microseconds")),
            Some(("task", rest)) => turns.push(read_turns(rest)),
            Some(("violations", number)) => violations = number.parse().expect("a number"),
            _ => break,
        }
    }
    let _ = process.wait();

    let mut sample = vec![(Metric::Violations, violations)];
    match mode {
        Mode::Apart => {
            for (metric, part) in [(Metric::P50, 0.5), (Metric::P99, 0.99)] {
                let figure = stats::percentile(&mut latencies, part);
                sample.extend(figure.map(|figure| (metric, figure)));
            }
        }
        Mode::One => sample.extend(fairness(&turns, span)),
    }
    sample
}
