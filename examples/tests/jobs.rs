//! The example `cron` as replicas of one service: processes of their own, over real servers, with clocks
//! that differ by seconds.

#![allow(clippy::unwrap_used)] // a test fails by a panic

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use redlock_tests::{ClockShim, LIMIT, Nodes, Peer, skipped, within};
use tempfile::TempDir;

const CRON: &str = env!("CARGO_BIN_EXE_cron");

/// A line that a replica has written about a tick.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tick: u64,
    replica: String,
    wrote: bool,
}

/// Some replicas, which write what they do to one file. What they do not do is in a file of each: a line of `eprintln`
/// comes in several pieces.
struct Stage {
    nodes: Nodes,
    shim: ClockShim,
    folder: TempDir,
    min_hold: &'static str,
}

impl Stage {
    /// `None` where the clock of a process cannot be set.
    fn new(test: &str, min_hold: &'static str) -> Option<Self> {
        let shim = match ClockShim::compile() {
            Ok(shim) => shim,
            Err(reason) => {
                skipped(test, &reason);
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        Some(Self { nodes: Nodes::start(3), shim, folder, min_hold })
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    fn journals(&self) -> impl Iterator<Item = PathBuf> {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|it| it.unwrap().path());
        files.filter(|it| it.file_stem().is_some_and(|it| it == "journal"))
    }

    /// Starts a replica whose clock is this many seconds ahead.
    fn start(&self, name: &str, ahead: i64) -> Peer {
        let clock = self.folder.path().join(name);
        fs::write(&clock, 0_i64.to_ne_bytes()).unwrap();
        self.set_clock(name, ahead);
        // There is one process in the end: each program replaces the one before it.
        let mut words =
            vec!["-c".to_owned(), r#"own=$1; shift; exec "$@" >>"$0" 2>>"$own""#.to_owned()];
        words.push(self.journal().display().to_string());
        words.push(self.journal().with_extension(name).display().to_string());
        words.extend(self.shim.before_program(&clock));
        words.push(format!("REDLOCK_NODES={}", self.nodes.urls().join(",")));
        words.push(format!("MIN_HOLD_SECONDS={}", self.min_hold));
        // More ticks than any test waits for, and servers on a busy machine.
        words.extend(["TICKS=3600", "NODE_TIMEOUT_MS=2000", CRON, name].map(str::to_owned));
        Peer::start("sh", words)
    }

    /// Sets the clock of a replica, in place: the file is its memory.
    fn set_clock(&self, name: &str, ahead: i64) {
        let file = File::options().write(true).open(self.folder.path().join(name)).unwrap();
        file.write_all_at(&(ahead * 1_000_000_000).to_ne_bytes(), 0).unwrap();
    }

    /// What was written so far; the last line may not be complete.
    fn entries(&self) -> Vec<Entry> {
        let texts = self.journals().map(|it| fs::read_to_string(it).unwrap_or_default());
        texts
            .flat_map(|it| it.split_inclusive('\n').filter_map(entry).collect::<Vec<_>>())
            .collect()
    }

    /// The ticks to which this replica has come.
    fn ticks_of(&self, replica: &str) -> BTreeSet<u64> {
        let entries = self.entries().into_iter();
        entries.filter(|it| it.replica == replica).map(|it| it.tick).collect()
    }

    /// The ticks that were done.
    fn done(&self) -> Vec<u64> {
        self.entries().into_iter().filter(|it| it.wrote).map(|it| it.tick).collect()
    }

    /// Whether every tick that a node has a key of was done.
    fn is_between_ticks(&self) -> bool {
        let done = self.done();
        let keys = self.nodes.iter().flat_map(|node| node.keys());
        let mut ticks = keys.filter_map(|it| it.rsplit_once(':')?.1.parse().ok());
        ticks.all(|tick: u64| done.contains(&tick))
    }

    /// Stops a replica between two ticks and kills it. A replica that is killed while it does a tick
    /// takes this tick along.
    async fn kill_between_ticks(&self, replica: Peer) {
        eventually("a replica is between two ticks", async || {
            replica.pause();
            if self.is_between_ticks() {
                return true;
            }
            replica.resume();
            false
        })
        .await;
        replica.kill();
    }
}

/// Waits for longer than other tests: real ticks pass in between, and every replica has to come to them.
async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < 4 * LIMIT, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How far ahead of the real time a clock is that shows this time.
fn ahead_of_now(time: u64) -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    i64::try_from(time).unwrap() - i64::try_from(now).unwrap()
}

/// `tick 17: replica a wrote the report`, or `skipped it`.
fn entry(line: &str) -> Option<Entry> {
    let (tick, rest) = line.strip_suffix('\n')?.strip_prefix("tick ")?.split_once(": replica ")?;
    let (replica, what) = rest.split_once(' ')?;
    let wrote = match what {
        "wrote the report" => true,
        "skipped it" => false,
        _ => return None,
    };
    Some(Entry { tick: tick.parse().unwrap(), replica: replica.to_owned(), wrote })
}

#[tokio::test]
async fn every_tick_is_done_once_by_replicas_with_other_clocks_that_crash_and_come_late() {
    let test = "every_tick_is_done_once_by_replicas_with_other_clocks_that_crash_and_come_late";
    let Some(stage) = Stage::new(test, "600") else { return };
    let ahead = stage.start("ahead", 2);
    let right = stage.start("right", 0);
    eventually("the first ticks are done", async || stage.ticks_of("ahead").len() >= 2).await;

    // This replica comes to ticks that are done already.
    let late = stage.start("late", -2);
    eventually("it has come to a tick", async || !stage.ticks_of("late").is_empty()).await;

    // The replica that has done the ticks until now comes to the same ticks again.
    stage.kill_between_ticks(ahead).await;
    let killed_at = stage.done().into_iter().max().unwrap();
    let again = stage.start("again", ahead_of_now(killed_at - 8));
    eventually("it has come to a tick", async || !stage.ticks_of("again").is_empty()).await;
    assert!(stage.ticks_of("again").first() <= Some(&killed_at));
    stage.set_clock("again", 1);
    eventually("another replica goes on", async || stage.done().iter().max() > Some(&killed_at))
        .await;

    // All of them have come to all ticks until then.
    let last = stage.done().into_iter().max().unwrap() + 1;
    for replica in ["right", "late", "again"] {
        eventually("all replicas have come to the last tick", async || {
            stage.ticks_of(replica).last() >= Some(&last)
        })
        .await;
    }
    let mut times = BTreeMap::new();
    for tick in stage.done().into_iter().filter(|tick| *tick <= last) {
        *times.entry(tick).or_insert(0) += 1;
    }
    let first = *times.keys().next().unwrap();
    let once: BTreeMap<_, _> = (first..=last).map(|tick| (tick, 1)).collect();
    assert_eq!(times, once, "{:#?}", stage.entries());
    [right, late, again].into_iter().for_each(Peer::kill);
}

#[tokio::test]
async fn a_min_hold_below_the_difference_of_clocks_runs_a_tick_twice() {
    let test = "a_min_hold_below_the_difference_of_clocks_runs_a_tick_twice";
    let Some(stage) = Stage::new(test, "1") else { return };
    let replicas = [stage.start("ahead", 2), stage.start("late", -2)];
    eventually("a tick is done twice", async || {
        let mut done = BTreeSet::new();
        !stage.done().into_iter().all(|tick| done.insert(tick))
    })
    .await;
    replicas.into_iter().for_each(Peer::kill);
}

/// Runs two replicas in one process for two ticks, and returns how many reports they wrote.
async fn two_replicas(min_hold: &'static str) -> u64 {
    let run = tokio::task::spawn_blocking(move || {
        let mut cron = Command::new(CRON);
        cron.envs([("TICKS", "2"), ("MIN_HOLD_SECONDS", min_hold), ("NODE_TIMEOUT_MS", "2000")]);
        cron.output().unwrap()
    });
    let output = within("two replicas", run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let written =
        text.lines().last().and_then(|it| it.strip_suffix(" reports in 2 ticks")?.parse().ok());
    written.ok_or(text).unwrap()
}

/// Two replicas write so many reports in two ticks. On a busy machine, a replica may not get a lock in time and write
/// fewer, which says nothing.
async fn reports(expected: u64, min_hold: &'static str) {
    eventually("the replicas are in time", async || {
        let written = two_replicas(min_hold).await;
        assert!(written <= expected, "{written} reports in 2 ticks");
        written == expected
    })
    .await;
}

#[tokio::test]
async fn without_min_hold_a_replica_that_waits_runs_the_tick_again() {
    reports(2, "60").await;
    reports(4, "0").await;
}
