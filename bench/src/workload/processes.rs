//! Processes that want one lock: no queue in one of them can be fair to the others.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use redlock_tests::history::{self, Hold};

use super::{Bench, Case, Flavor, Workload, contended::fairness, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Rivals, Turns},
    metric::{Metric, Sample},
    servers,
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
    let sample = move |which: Which| {
        let span = bench.pick(Duration::from_secs(10), Duration::from_secs(2));
        match which {
            // No mutex reaches over processes: as many tasks in one.
            Which::Mutex => which.visit(Alone { span }),
            Which::Ours | Which::Rslock | Which::Bare | Which::Sockets | Which::Queued => {
                together(bench, which, span)
            }
        }
    };
    vec![Case {
        label: format!("{PROCESSES} x {TASKS} tasks"),
        clients: &[Which::Mutex, Which::Ours, Which::Rslock, Which::Bare],
        sample: Box::new(sample),
    }]
}

struct Alone {
    span: Duration,
}

impl Visit for Alone {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        Flavor::MultiThread.runtime().block_on(async {
            let client = C::open(&[]).await;
            let rivals = Rivals::new(self.span, u64::MAX);
            let (turns, _) = load::contended(&client, PROCESSES * TASKS, &rivals, None).await;
            fairness(&turns, self.span)
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
    fn start(which: Which, resource: &str, span: Duration, urls: &[String]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args([CHILD, which.name(), resource, &span.as_millis().to_string()])
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

    /// What each of its tasks got, and its holds.
    fn finish(mut self) -> (Vec<Turns>, Vec<Hold>) {
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
        assert_eq!(turns.len(), TASKS, "a rival ended early");
        (turns, holds)
    }
}

fn read_turns(line: &str) -> Turns {
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [count, longest, failures] = numbers[..] else { panic!("not turns: {line:?}") };
    Turns { count, longest: Duration::from_micros(longest), failures }
}

fn together(bench: &Bench, which: Which, span: Duration) -> Sample {
    let (urls, resource) = (bench.urls(NODES), load::fresh());
    let mut rivals: Vec<_> =
        (0..PROCESSES).map(|_| Rival::start(which, &resource, span, &urls)).collect();
    for rival in &mut rivals {
        assert_eq!(rival.line(), "ready", "a rival did not start");
    }
    let before = servers::count(&bench.nodes);
    for rival in &mut rivals {
        writeln!(rival.hears, "go").expect("a rival hears");
    }
    let (mut turns, mut holds, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for rival in rivals {
        let (its_turns, its_holds) = rival.finish();
        shares.push(its_turns.iter().map(|task| task.count).sum::<u64>());
        turns.extend(its_turns);
        holds.extend(its_holds);
    }
    let counted = servers::count(&bench.nodes).since(before);

    let taken: u64 = shares.iter().sum();
    let least = shares.into_iter().min().unwrap_or_default();
    let mut sample = fairness(&turns, span);
    sample.extend([
        (Metric::LeastShare, least as f64 * PROCESSES as f64 / taken.max(1) as f64),
        (Metric::Commands, counted.commands as f64 / (taken.max(1) as f64 * NODES as f64)),
        (Metric::Violations, history::overlaps(&holds).len() as f64),
    ]);
    sample
}

/// What a rival does: says that it is ready, waits for a word, and tells what it got.
pub(crate) fn child(arguments: &[String]) {
    let [which, resource, span, urls @ ..] = arguments else { panic!("{arguments:?}") };
    let which = Which::named(which).expect("a client");
    let span = Duration::from_millis(span.parse().expect("milliseconds"));
    which.visit(Contend { resource, span, urls });
}

struct Contend<'a> {
    resource: &'a str,
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
            let (turns, _) = load::contended(&client, TASKS, &rivals, Some(&history)).await;
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
