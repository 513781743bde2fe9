//! A real redis-server on a free port of the loopback. It ends when it is dropped, and when the test's process is
//! killed.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use redis::Value;

/// Far more than any step here takes, however busy the machine is.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Kills a program and removes its directory once standard input ends, unless it was told a line before. The other end
/// of that pipe is in the test's process and nowhere else: it closes when that is killed.
const KEEPER: &str = r#"read -r _ || { kill -9 "$0"; rm -rf "$1"; }"#;

pub(super) struct Server {
    process: Process,
    pub(super) port: u16,
    directory: PathBuf,
    admin: redis::Connection,
}

/// A running program, which ends when this is dropped.
struct Process {
    program: Child,
    keeper: Child,
    /// `None` once the program has ended.
    lifeline: Option<ChildStdin>,
}

impl Process {
    fn new(program: Child, directory: &Path) -> Self {
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, &program.id().to_string()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Not in the group of the terminal: Ctrl-C would end the keeper together with the test.
            .process_group(0)
            .spawn();
        let mut keeper = keeper.unwrap_or_else(|error| panic!("sh could not be started: {error}"));
        Self { program, lifeline: keeper.stdin.take(), keeper }
    }

    /// `kill -9`.
    fn end(&mut self) {
        let Some(mut lifeline) = self.lifeline.take() else { return };
        let _ = self.program.kill();
        // The keeper goes first: after the wait, the process id may be that of another program.
        let _ = lifeline.write_all(b"\n");
        let _ = self.keeper.wait();
        let _ = self.program.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments, which must leave the default user as it is: set
    /// passwords with [`admin`](Self::admin), whose connection stays logged in.
    pub(super) fn start_with(arguments: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("redlock-core-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();

        let deadline = Instant::now() + LIMIT;
        loop {
            // The port is free now. If another process takes it before the server does, try the
            // next one.
            let port = free_port();
            let program = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--appendonly", "no", "--unixsocket", "redis.sock"])
                .arg("--dir")
                .arg(&directory)
                .args(arguments)
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!(
                        "cannot start redis-server ({error}): `cargo xtask test` installs it and \
                         runs these tests"
                    )
                });
            let mut process = Process::new(program, &directory);
            while process.program.try_wait().unwrap().is_none() {
                assert!(Instant::now() < deadline, "redis-server does not come up");
                let client = redis::Client::open(("127.0.0.1", port)).unwrap();
                if let Ok(admin) = client.get_connection() {
                    return Self { process, port, directory, admin };
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// A URL of this server: `url("user:password@", "/1")`.
    pub(super) fn url(&self, login: &str, rest: &str) -> String {
        format!("redis://{login}127.0.0.1:{}{rest}", self.port)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    /// Runs a command on the server's own connection.
    pub(super) fn admin(&mut self, command: &str) -> Value {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            cmd.arg(word);
        });
        cmd.query(&mut self.admin).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub(super) fn number(&mut self, command: &str) -> i64 {
        match self.admin(command) {
            Value::Int(number) => number,
            other => panic!("{command}: {other:?}"),
        }
    }

    /// The text of `INFO section` or `CLIENT LIST`.
    pub(super) fn text(&mut self, command: &str) -> String {
        redis::from_redis_value(self.admin(command)).unwrap()
    }

    /// The commands run since the last `CONFIG RESETSTAT`, those in scripts too, as `"get 2"`.
    pub(super) fn commands_run(&mut self) -> Vec<String> {
        let stats = self.text("INFO commandstats");
        let mut commands: Vec<_> = stats
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
            .map(|(name, rest)| format!("{name} {}", rest.split(',').next().unwrap()))
            // The commands that the helper itself has sent.
            .filter(|line| !line.starts_with("config|") && !line.starts_with("info "))
            .collect();
        commands.sort();
        commands
    }

    pub(super) async fn wait_for(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) {
        let deadline = Instant::now() + LIMIT;
        while !condition(self) {
            assert!(Instant::now() < deadline, "still waiting: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything that the server is told from now on.
    pub(super) fn monitor(&self) -> Monitor {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut ok = [0; 5];
        stream.read_exact(&mut ok).unwrap();
        assert_eq!(&ok, b"+OK\r\n");
        Monitor(BufReader::new(stream))
    }

    pub(super) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(super) fn resume(&self) {
        self.signal("-CONT");
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.process.end();
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.program.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.end();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Below the ports that operating systems give to outgoing connections: a client that dials such a port
/// before its server listens there can be given the very port as its own, connect to itself, and keep the
/// server from coming up.
fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each process starts elsewhere, so that suites which run side by side rarely meet.
    let start = std::process::id().wrapping_mul(9_973);
    let mut ports = (0..COUNT).map(|_| {
        let step = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        u16::try_from(FIRST + step % COUNT).unwrap()
    });
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

pub(super) struct Monitor(BufReader<TcpStream>);

impl Monitor {
    /// The names of the commands that clients sent until now; those that scripts ran inside are
    /// not among them.
    pub(super) fn sent(self, server: &mut Server) -> Vec<String> {
        let lines = self.lines(server).into_iter().filter(|(inside, _)| !inside);
        lines.map(|(_, words)| words[0].to_ascii_uppercase()).collect()
    }

    /// The keys that scripts have set until now. Each is pushed to the client that tracks it.
    pub(super) fn set_inside(self, server: &mut Server) -> Vec<String> {
        let is_set = |words: &[String]| words[0].eq_ignore_ascii_case("SET");
        let lines = self.lines(server).into_iter();
        lines
            .filter(|(inside, words)| *inside && is_set(words))
            .map(|(_, words)| words[1].clone())
            .collect()
    }

    /// The words of each command until now, and whether a script ran it.
    fn lines(mut self, server: &mut Server) -> Vec<(bool, Vec<String>)> {
        server.admin("ECHO the-end");
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the monitor was cut off");
            if line.contains("the-end") {
                return lines;
            }
            // +1700000000.000000 [0 127.0.0.1:4711] "SET" "key" ..
            let (origin, command) = line.split_once("] ").unwrap();
            let words = command.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            lines.push((origin.ends_with(" lua"), words));
        }
    }
}
