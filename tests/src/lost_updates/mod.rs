//! What a lock alone cannot do, and what a fencing token can, over real processes and servers: a
//! process that stands still between its check and its write, for longer than its lease, overwrites
//! what the next holder wrote, unless the store looks at tokens. This is the example of Martin
//! Kleppmann's "How to do distributed locking". `cargo xtask lost-updates` runs it.
//!
//! - `store`: a counter in SQLite; `client`: a process that increments it.
//! - `stage`: what is done to clients and servers; `clocks`: to their clocks.

mod client;
mod clocks;
mod stage;
mod store;

use std::{path::Path, process::ExitCode, time::SystemTime};

use stage::{Outcome, Stage};

use crate::chance::Chance;

/// The first argument of a client, which is this same program.
const CLIENT: &str = "client";

/// What all clients lock.
const RESOURCE: &str = "counter";

const USAGE: &str = "\
Usage: [--rounds N] [--increments N] [--seed S]
       10 rounds of a stop between check and write, 10000 increments of clients that are disturbed \
at random, a seed from the clock";

const WHY: &str = "\
Every client asks whether its lock is valid just before it writes, and it is. Then it stands still:
a page fault, a paused virtual machine, a busy host. Its lease runs out, as it must if another client
is ever to go on after a crash; the next client takes the lock, reads and writes. The first one wakes
up behind its check and overwrites that. No lock can prevent it, since what was checked is past by
the time of the write; the same goes for a packet that is late, and for a majority of servers whose
clocks are set ahead.

What prevents it is the store. A fencing token is a number that grows with every lock that is given;
a client registers its token before it reads, and shows it again when it writes; the store refuses a
number that is smaller than one it has seen. See docs/fencing.md.";

#[derive(Debug)]
struct Asked {
    rounds: usize,
    increments: i64,
    seed: u64,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = u64::from(clock.subsec_micros());
    let mut asked = Asked { rounds: 10, increments: 10_000, seed };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{value} is not a number"));
        match word.as_str() {
            "--rounds" => asked.rounds = number()?,
            "--increments" => asked.increments = i64::try_from(number()?).unwrap(),
            "--seed" => asked.seed = u64::try_from(number()?).unwrap(),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(asked)
}

/// Does what the arguments ask for. Fails when undisturbed clients lose an update, when a store
/// that checks tokens loses an update, and when a store that does not check tokens loses none
/// although a client was stopped between check and write.
pub fn run(arguments: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [CLIENT, orders, store, urls @ ..] = &words[..] {
        runtime.block_on(client::run(orders.parse().unwrap(), Path::new(store), urls));
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

async fn demonstrate(asked: &Asked) -> ExitCode {
    println!("seed {}", asked.seed);
    println!(
        "{:<16} {:<32} {:>6} {:>6} {:>11} {:>8} {:>8} {:>6}",
        "the store sees",
        "the clients are",
        "stops",
        "jumps",
        "increments",
        "refused",
        "counter",
        "lost"
    );
    let mut as_expected = true;
    for fenced in [false, true] {
        let mut stage = Stage::set_up(fenced);
        let quiet = stage.left_alone().await;
        quiet.print(fenced, "left alone");
        let stopped = stage.between_check_and_write(asked.rounds).await;
        stopped.print(fenced, "stopped between check and write");
        let chance = &mut Chance::new(asked.seed);
        let random = stage.at_random(asked.increments, chance).await;
        random.print(fenced, "stopped at random, clocks set");
        let of_stopped = if fenced { 0 } else { i64::try_from(asked.rounds).unwrap() };
        as_expected &= quiet.lost() == 0 && stopped.lost() == of_stopped;
        as_expected &= !fenced || random.lost() == 0;
    }
    println!("\n{WHY}");
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Outcome {
    fn lost(self) -> i64 {
        self.totals.increments - self.totals.counter
    }

    fn print(self, fenced: bool, what: &str) {
        let store = if fenced { "a fencing token" } else { "no token" };
        let Self { totals, stops, jumps, refused } = self;
        println!(
            "{store:<16} {what:<32} {stops:>6} {jumps:>6} {:>11} {refused:>8} {:>8} {:>6}",
            totals.increments,
            totals.counter,
            self.lost()
        );
    }
}
