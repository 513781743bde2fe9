//! A program of another language at work. `bench/peers/README.md` says what it is asked and what it answers.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::Duration,
};

use super::{Bench, processes::read_turns, throughput::NODES};
use crate::{
    client::Peer,
    load::{self, Turns},
    metric::{Metric, Sample},
    stats,
};

/// What the tasks of a program do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One task takes free locks.
    Apart,
    /// This many tasks want one lock.
    One(usize),
}

/// A program that is connected and waits for the word to begin.
#[derive(Debug)]
pub(super) struct Asked {
    process: Child,
    hears: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

/// What a program said at its end.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// How long each lock with its release took, in microseconds.
    latencies: Vec<f64>,
    /// What each task got of the one lock.
    pub(super) turns: Vec<Turns>,
    /// How often two tasks held the one lock.
    pub(super) violations: f64,
}

impl Asked {
    /// Starts the program of a peer, which will work for `span`. `None` where its language is not installed.
    pub(super) fn start(bench: &Bench, peer: Peer, mode: Mode, span: Duration) -> Option<Self> {
        let (name, tasks) = match mode {
            Mode::Apart => ("apart", 1),
            Mode::One(tasks) => ("one", tasks),
        };
        let nodes = bench.urls(NODES).into_iter();
        let mut process = peer
            .program()?
            .command()
            .args([name, &tasks.to_string(), &span.as_millis().to_string(), &load::fresh()])
            .args(nodes.map(|url| url.trim_start_matches("redis://").to_owned()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program that was built can be started");
        let hears = process.stdin.take().expect("a pipe");
        let says = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut asked = Self { process, hears, says };
        assert_eq!(asked.line(), "ready", "a peer did not start");
        Some(asked)
    }

    fn line(&mut self) -> String {
        self.says.next().and_then(Result::ok).expect("a peer speaks until its end")
    }

    /// Its span begins.
    pub(super) fn go(&mut self) {
        writeln!(self.hears, "go").expect("a peer hears");
    }

    /// Waits for its end.
    pub(super) fn hear(mut self) -> Said {
        let mut said = Said::default();
        loop {
            let line = self.line();
            match line.split_once(' ') {
                Some(("lock", micros)) => {
                    said.latencies.push(micros.parse().expect("microseconds"));
                }
                Some(("task", rest)) => said.turns.push(read_turns(rest)),
                Some(("violations", number)) => {
                    said.violations = number.parse().expect("a number");
                }
                _ => break,
            }
        }
        let _ = self.process.wait();
        said
    }
}

impl Said {
    /// How long a lock with its release took.
    pub(super) fn times(&mut self) -> Sample {
        let parts = [(Metric::P50, 0.5), (Metric::P99, 0.99)].into_iter();
        parts
            .filter_map(|(metric, part)| {
                Some((metric, stats::percentile(&mut self.latencies, part)?))
            })
            .collect()
    }
}
