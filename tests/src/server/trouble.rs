//! What can go wrong inside a server.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::PathBuf,
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use redis::{RedisResult, Value};

use super::{CLOCK, Ready, Server, lock};
use crate::wait::wait_blocking;

/// A server that loads, but tells of it, for far longer than any test takes: until
/// [`Server::finish_loading`].
pub(super) const SLOW_LOADING: [&str; 4] =
    ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// Enough keys to load that a server answers many times in between.
const KEYS_TO_LOAD: &str = "3000";

impl Server {
    /// One command, with its answer or the server's error.
    pub fn try_command(&self, words: &[&str]) -> RedisResult<Value> {
        let mut connection = self.settings.connect(self.port)?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    /// CONFIG SET.
    pub fn configure(&self, setting: &str, value: &str) {
        self.command(&["CONFIG", "SET", setting, value]);
    }

    /// How often this command was run, in scripts too, since the start or the last
    /// CONFIG RESETSTAT.
    pub fn calls(&self, command: &str) -> u64 {
        let field = format!("cmdstat_{command}:calls=");
        let stats = self.info("commandstats");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// Sets the wall clock of a server with a [`ClockShim`](crate::ClockShim) ahead by this much.
    pub fn set_clock_ahead(&self, by: Duration) {
        self.set_clock(i64::try_from(by.as_nanos()).unwrap());
    }

    /// Sets the wall clock of a server with a [`ClockShim`](crate::ClockShim) back by this much.
    pub fn set_clock_back(&self, by: Duration) {
        self.set_clock(-i64::try_from(by.as_nanos()).unwrap());
    }

    fn set_clock(&self, ahead: i64) {
        let file = fs::File::options().write(true).open(self.directory.path().join(CLOCK));
        // In place, the file is the server's memory: there is nothing to wait for.
        file.unwrap().write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
        let (shown, _): (i64, i64) = self.query(&redis::cmd("TIME"));
        let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let off = i128::from(shown) - i128::from(ours.as_secs()) - i128::from(ahead / SECOND);
        assert!(off.abs() <= 5, "the clock of the server on port {} is off by {off} s", self.port);
    }

    /// Kills the server and starts it with data that take it for ever to load.
    pub fn restart_loading(&self) {
        self.command(&["DEBUG", "POPULATE", KEYS_TO_LOAD, "load", "100"]);
        self.command(&["SAVE"]);
        self.kill();
        self.start_again_until(Ready::Loading);
    }

    /// Lets a server that loads come to its end, without the data that made it slow.
    pub fn finish_loading(&self) {
        self.try_command(&["CONFIG", "SET", "key-load-delay", "0"]).unwrap();
        let done = wait_blocking(|| self.try_command(&["PING"]).is_ok());
        assert!(done, "the server on port {} does not stop loading", self.port);
        self.command(&["FLUSHALL"]);
    }

    /// Cuts the append-only file of a killed server: what it had written before a power failure
    /// that its disk did not write.
    pub fn lose_append_only_file(&self) {
        assert!(lock(&self.process).is_none(), "the server on port {} runs", self.port);
        let directory = self.directory.path().join("appendonlydir");
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let increments: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|it| it == "aof")).collect();
        let written = |path: &&PathBuf| path.to_string_lossy().contains(".incr.");
        let file = increments.iter().find(written).expect("an append-only file");
        fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
    }

    /// Removes the directory of the server, so that it cannot save, and makes it notice. Returns
    /// once it refuses writes for that. For servers started with a `--save` of their own.
    pub fn break_saving(&self) {
        fs::remove_dir_all(self.directory.path()).unwrap();
        self.command(&["BGSAVE"]);
        let failed = wait_blocking(|| self.info("persistence").contains("bgsave_status:err"));
        assert!(failed, "the server on port {} saves all the same", self.port);
    }

    /// Runs a script that does not end. Returns once others are told that the server is busy.
    pub fn busy(&self) -> Busy {
        self.configure("busy-reply-threshold", "10");
        // No client can log in while the script runs.
        let mut killer = self.settings.connect(self.port).unwrap();
        let mut victim = self.settings.connect(self.port).unwrap();
        let script = std::thread::spawn(move || {
            let endless = redis::cmd("EVAL").arg("while true do end").arg(0).to_owned();
            let _: RedisResult<Value> = endless.query(&mut victim);
        });
        let busy = wait_blocking(|| {
            let pong: RedisResult<Value> = redis::cmd("PING").query(&mut killer);
            pong.is_err_and(|error| error.code() == Some("BUSY"))
        });
        assert!(busy, "the server on port {} is not busy", self.port);
        Busy { killer, script: Some(script) }
    }
}

/// A script that runs on a server until this is dropped.
pub struct Busy {
    killer: redis::Connection,
    script: Option<JoinHandle<()>>,
}

impl Busy {
    /// Whether the script still runs, and no other client has killed it.
    pub fn still_runs(&mut self) -> bool {
        let pong: RedisResult<Value> = redis::cmd("PING").query(&mut self.killer);
        pong.is_err_and(|error| error.code() == Some("BUSY"))
    }
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Busy").finish_non_exhaustive()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _: RedisResult<Value> = redis::cmd("SCRIPT").arg("KILL").query(&mut self.killer);
        if let Some(script) = self.script.take() {
            let _ = script.join();
        }
    }
}
