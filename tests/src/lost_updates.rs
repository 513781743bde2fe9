//! What a lock alone cannot do, over real processes and servers: a process that stands still
//! between its check and its write, for longer than its lease, overwrites what the next holder
//! wrote. This is the example of Martin Kleppmann's "How to do distributed locking", and holds for
//! every lock with a lease. `cargo xtask lost-updates` runs it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    thread,
    time::{Duration, SystemTime},
};

use redlock_core::{LockError, Redlock};
use rustix::process::{Signal, getpid, kill_process};

use crate::{LIMIT, Nodes, Peer, chance::Chance};

/// The first argument of a client, which is this same program.
const CLIENT: &str = "client";

/// How long a write is on its way to the store.
const WAY: Duration = Duration::from_millis(5);

const TTL: Duration = Duration::from_millis(500);

/// Of clients that nobody stops: no busy host stops them for so long.
const LONG_TTL: Duration = Duration::from_secs(30);

/// How many clients contend where chance stops them.
const CLIENTS: usize = 4;

/// How many increments are made while nobody is stopped.
const UNDISTURBED: usize = 200;

const USAGE: &str = "\
Usage: [--rounds N] [--stops N] [--seed S]
       10 rounds of a stop between check and write, 30 stops at random, a seed from the clock";

const WHY: &str = "\
Every client asks whether its lock is valid just before it writes, and it is. Then it stands still:
a page fault, a paused virtual machine, a busy host. Its lease runs out, as it must if anybody is
ever to go on after a crash; the next client takes the lock, reads and writes. The first one wakes
up behind its check and overwrites that. No lock can prevent it, since what was checked is past by
the time of the write; the same goes for a packet that is late.

What prevents it is the store: a fencing token is a number that grows with every lock that is given,
the write carries it, and the store refuses a number that is smaller than one it has seen. Tokens
are to come. Until then, write what has to be right under every pause with a condition that the
store checks, such as a version or the value that was read.";

#[derive(Debug)]
struct Asked {
    rounds: usize,
    stops: usize,
    seed: u64,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut asked = Asked { rounds: 10, stops: 30, seed: u64::from(clock.subsec_micros()) };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{value} is not a number"));
        match word.as_str() {
            "--rounds" => asked.rounds = number()?,
            "--stops" => asked.stops = number()?,
            "--seed" => asked.seed = u64::try_from(number()?).unwrap(),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(asked)
}

/// Does what the arguments ask for. Fails when a client that nobody stopped lost an update, and
/// when one that was stopped between check and write did not.
pub fn run(arguments: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [CLIENT, kind, counter, urls @ ..] = &words[..] {
        runtime.block_on(client(kind.parse().unwrap(), Path::new(counter), urls));
        return ExitCode::SUCCESS;
    }
    match parse(arguments) {
        Ok(asked) => runtime.block_on(demonstrate(&asked)),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// What a client is to do.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// How often it increments the counter.
    count: usize,
    ttl: Duration,
    /// It stands still between the check and the write.
    stops: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.count, self.ttl.as_millis(), self.stops)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let mut words = text.split(' ');
            let count = words.next()?.parse().ok()?;
            let ttl = Duration::from_millis(words.next()?.parse().ok()?);
            Some(Self { count, ttl, stops: words.next()?.parse().ok()? })
        };
        read().ok_or_else(|| format!("not a kind of client: {text:?}"))
    }
}

/// Increments the counter as often as it is to, or until standard input ends, and prints how often
/// that was.
async fn client(Kind { count, ttl, stops }: Kind, counter: &Path, urls: &[&str]) {
    let locks = Redlock::builder()
        .nodes(urls.iter().copied())
        .node_timeout(Duration::from_millis(100))
        .ttl(ttl)
        .retry_delay(Duration::from_millis(5))
        .retry_jitter(Duration::from_millis(5))
        .build()
        .unwrap();
    let input = thread::spawn(|| io::copy(&mut io::stdin(), &mut io::sink()));
    let mut done = 0;
    while done < count && !input.is_finished() {
        let guard = match locks.lock("counter").wait(LIMIT).await {
            Ok(guard) => guard,
            // Expected of clients that are stopped: a quorum that comes too late is none.
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let value = read(counter);
        if !guard.is_valid() {
            continue;
        }
        if stops {
            println!("has read {value}");
            kill_process(getpid(), Signal::STOP).unwrap();
        } else {
            // The way of the write to a store.
            thread::sleep(WAY);
        }
        write(counter, value + 1);
        done += 1;
        // Whether it was still ours is told now: too late for the write.
        let _ = guard.release().await;
    }
    println!("{done}");
}

fn read(counter: &Path) -> usize {
    fs::read_to_string(counter).unwrap().parse().unwrap()
}

/// As a whole, so that nobody reads half a number.
fn write(counter: &Path, value: usize) {
    let own = counter.with_extension(std::process::id().to_string());
    fs::write(&own, value.to_string()).unwrap();
    fs::rename(own, counter).unwrap();
}

/// A counter that clients share, and what they lock it with.
struct Shared {
    nodes: Nodes,
    directory: tempfile::TempDir,
}

/// What came of one way of disturbing the clients.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    increments: usize,
    counter: usize,
}

impl Outcome {
    fn lost(self) -> usize {
        self.increments - self.counter
    }

    fn print(self, what: &str) {
        println!("{what:<34} {:>10} {:>10} {:>6}", self.increments, self.counter, self.lost());
    }
}

async fn demonstrate(asked: &Asked) -> ExitCode {
    println!("{:<34} {:>10} {:>10} {:>6}", "the clients are", "increments", "counter", "lost");
    let directory = tempfile::tempdir().unwrap();
    let shared = Shared { nodes: Nodes::start(5), directory };
    let quiet = shared.undisturbed().await;
    quiet.print("left alone");
    let stopped = shared.between_check_and_write(asked.rounds).await;
    stopped.print("stopped between check and write");
    let random = shared.at_random(asked.stops, &mut Chance::new(asked.seed)).await;
    random.print(&format!("stopped {} times at random", asked.stops));
    println!("\n{WHY}");
    let as_expected = quiet.lost() == 0 && stopped.lost() == asked.rounds;
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Shared {
    fn counter(&self) -> PathBuf {
        self.directory.path().join("counter")
    }

    fn client(&self, kind: Kind) -> Peer {
        let program = std::env::current_exe().unwrap();
        let counter = self.counter().display().to_string();
        let words = [CLIENT.to_owned(), kind.to_string(), counter];
        Peer::start(program.to_str().unwrap(), words.into_iter().chain(self.nodes.urls()))
    }

    async fn undisturbed(&self) -> Outcome {
        write(&self.counter(), 0);
        let kind = Kind { count: UNDISTURBED / CLIENTS, ttl: LONG_TTL, stops: false };
        self.outcome((0..CLIENTS).map(|_| self.client(kind)).collect()).await
    }

    /// In each round the first client stands still behind its check until the second is done.
    async fn between_check_and_write(&self, rounds: usize) -> Outcome {
        write(&self.counter(), 0);
        let once = Kind { count: 1, ttl: TTL, stops: false };
        for _ in 0..rounds {
            let mut first = self.client(Kind { stops: true, ..once });
            assert!(first.line().await.starts_with("has read "));
            first.wait_until_stopped();
            // Waits for the lock until the first one's lease has run out.
            assert_eq!(writes_of(self.client(once)).await, 1);
            first.resume();
            assert_eq!(writes_of(first).await, 1);
        }
        Outcome { increments: 2 * rounds, counter: read(&self.counter()) }
    }

    async fn at_random(&self, stops: usize, chance: &mut Chance) -> Outcome {
        write(&self.counter(), 0);
        let endless = Kind { count: usize::MAX, ttl: TTL, stops: false };
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client(endless)).collect();
        for _ in 0..stops {
            tokio::time::sleep(chance.millis(50, 300)).await;
            let client = &clients[chance.below(CLIENTS)];
            client.pause();
            tokio::time::sleep(TTL + chance.millis(100, 500)).await;
            client.resume();
        }
        clients.iter_mut().for_each(Peer::close);
        self.outcome(clients).await
    }

    async fn outcome(&self, clients: Vec<Peer>) -> Outcome {
        let mut increments = 0;
        for client in clients {
            increments += writes_of(client).await;
        }
        Outcome { increments, counter: read(&self.counter()) }
    }
}

/// How often this client wrote, once it has come to its end.
async fn writes_of(mut client: Peer) -> usize {
    let writes = client.line().await.parse().unwrap();
    assert!(client.end().await, "a client failed");
    writes
}
