//! Processes that want one lock: a queue inside one process cannot be fair to the other processes.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redlock_tests::history::{self, Hold};

use super::{Bench, Case, Flavor, Workload, contended::fairness, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Rivals, Turns},
    metric::{Metric, Sample},
    sent::Sent,
};

const PROCESSES: usize = 4;
const TASKS: usize = 4;

/// The argument that makes this program one of several that contend.
pub(crate) const CHILD: &str = "contend";

pub(super) const WORKLOAD: Workload = Workload {
    name: "processes",
    about: "4 processes of 4 tasks in a loop on one lock, held for 1 ms, on 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let span = bench.pick(Duration::from_secs(10), Duration::from_secs(2));
    let label = format!("{PROCESSES} x {TASKS} tasks");
    vec![case(bench, label, Crowd { processes: PROCESSES, tasks: TASKS, span })]
}

/// Some processes that contend.
pub(super) fn case(bench: &Bench, label: String, crowd: Crowd) -> Case<'_> {
    let sample = move |which: Which| {
        if which == Which::Mutex {
            // No mutex reaches over processes: the contestant is a mutex with as many tasks in one process.
            which.visit(Alone { crowd })
        } else {
            together(bench, which, crowd)
        }
    };
    Case {
        label,
        clients: &[Which::Mutex, Which::Ours, Which::Rslock, Which::Bare],
        sample: Box::new(sample),
    }
}

/// How many processes there are, and for how long they run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    pub(super) processes: usize,
    /// In each process.
    pub(super) tasks: usize,
    pub(super) span: Duration,
}

struct Alone {
    crowd: Crowd,
}

impl Visit for Alone {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let Crowd { processes, tasks, span } = self.crowd;
        Flavor::MultiThread.runtime().block_on(async {
            let client = C::open(&[]).await;
            let rivals = Rivals::new(span, u64::MAX);
            let (turns, _) = load::contended(&client, processes * tasks, &rivals, None).await;
            fairness(&turns, span)
        })
    }
}

/// One of the processes, from the outside.
struct Rival {
    process: Child,
    says: BufReader<ChildStdout>,
    /// The process ends when this closes.
    hears: ChildStdin,
}

impl Rival {
    fn start(which: Which, resource: &str, crowd: Crowd, urls: &[String]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args([CHILD, which.name(), resource])
            .args([crowd.tasks.to_string(), crowd.span.as_millis().to_string()])
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let says = BufReader::new(process.stdout.take().expect("a pipe"));
        let hears = process.stdin.take().expect("a pipe");
        Self { process, says, hears }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("a rival speaks text");
        line.trim_end().to_owned()
    }

    /// The report at its end.
    fn finish(mut self) -> Told {
        let (mut turns, mut holds) = (Vec::new(), Vec::new());
        loop {
            let line = self.line();
            match line.split_once(' ') {
                Some(("task", rest)) => turns.push(read_turns(rest)),
                Some(("hold", rest)) => holds.push(rest.parse().expect("a rival tells its holds")),
                _ => break,
            }
        }
        drop(self.hears);
        let _ = self.process.wait();
        assert!(!turns.is_empty(), "a rival ended early");
        Told { turns, holds }
    }
}

/// The shares of the tasks of a process, and the holds of all of them.
struct Told {
    turns: Vec<Turns>,
    holds: Vec<Hold>,
}

pub(super) fn read_turns(line: &str) -> Turns {
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [count, longest, failures] = numbers[..] else { panic!("not turns: {line:?}") };
    Turns { count, longest: Duration::from_micros(longest), failures }
}

/// Runs the processes once for the figures that depend on time, and once more to count the
/// commands.
fn together(bench: &Bench, which: Which, crowd: Crowd) -> Sample {
    let (rivals, ()) = run(bench, which, crowd, || ());
    let turns: Vec<Turns> = rivals.iter().flat_map(|rival| rival.turns.clone()).collect();
    let taken: u64 = turns.iter().map(|task| task.count).sum();
    let share = |rival: &Told| rival.turns.iter().map(|task| task.count).sum::<u64>();
    let least = rivals.iter().map(share).min().unwrap_or_default();
    let mut violations = violations(&rivals);

    let counted = crowd.span.min(Duration::from_secs(2));
    let counting = Crowd { span: counted + 2 * BESIDE, ..crowd };
    let counter = Sent::start(&bench.nodes[..NODES]);
    let (rivals, (span, sent)) = run(bench, which, counting, || {
        thread::sleep(BESIDE);
        let (from, before) = (history::now(), counter.count());
        thread::sleep(counted);
        let (until, after) = (history::now(), counter.count());
        (from..until, after - before)
    });
    violations += self::violations(&rivals);
    let holds = rivals.iter().flat_map(|rival| &rival.holds);
    let meanwhile = holds.filter(|hold| span.contains(&hold.from)).count();

    let mut sample = fairness(&turns, crowd.span);
    sample.extend([
        (Metric::LeastShare, least as f64 * crowd.processes as f64 / taken.max(1) as f64),
        (Metric::Sent, sent as f64 / meanwhile.max(1) as f64),
        (Metric::Violations, violations as f64),
    ]);
    sample
}

/// How long the processes are at it before something is counted, and afterwards.
const BESIDE: Duration = Duration::from_millis(500);

/// Starts the processes, lets them contend, and does something meanwhile.
fn run<T>(
    bench: &Bench,
    which: Which,
    crowd: Crowd,
    meanwhile: impl FnOnce() -> T,
) -> (Vec<Told>, T) {
    let (urls, resource) = (bench.urls(NODES), load::fresh());
    let mut rivals: Vec<_> =
        (0..crowd.processes).map(|_| Rival::start(which, &resource, crowd, &urls)).collect();
    for rival in &mut rivals {
        assert_eq!(rival.line(), "ready", "a rival did not start");
    }
    for rival in &mut rivals {
        writeln!(rival.hears, "go").expect("a rival hears");
    }
    let done = meanwhile();
    (rivals.into_iter().map(Rival::finish).collect(), done)
}

/// How often two processes held the lock at once.
fn violations(rivals: &[Told]) -> usize {
    let holds: Vec<Hold> = rivals.iter().flat_map(|rival| rival.holds.clone()).collect();
    history::overlaps(&holds).len()
}

/// The work of a rival: it says that it is ready, waits for the start, and reports its share.
pub(crate) fn child(arguments: &[String]) {
    let [which, resource, tasks, span, urls @ ..] = arguments else { panic!("{arguments:?}") };
    let which = Which::named(which).expect("a client");
    let span = Duration::from_millis(span.parse().expect("milliseconds"));
    let tasks = tasks.parse().expect("a number of tasks");
    which.visit(Contend { resource, tasks, span, urls });
}

struct Contend<'a> {
    resource: &'a str,
    tasks: usize,
    span: Duration,
    urls: &'a [String],
}

impl Visit for Contend<'_> {
    type Output = ();

    fn with<C: Client>(self) {
        Flavor::MultiThread.runtime().block_on(async {
            let client = C::open(self.urls).await;
            client.ready().await;
            println!("ready");
            let mut word = String::new();
            std::io::stdin().read_line(&mut word).expect("standard input is text");

            let begin = Instant::now();
            let resource = self.resource.into();
            let rivals = Rivals { resource, begin, end: begin + self.span, turns: u64::MAX };
            let history = history::History::new();
            // The parent finds overlaps of this process among those of all.
            let (turns, _) = load::contended(&client, self.tasks, &rivals, Some(&history)).await;
            for Turns { count, longest, failures } in turns {
                println!("task {count} {} {failures}", longest.as_micros());
            }
            for hold in history.holds() {
                println!("hold {hold}");
            }
        });
        println!("end");
        // Not before the parent has read it all.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    }
}
