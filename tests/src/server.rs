//! One redis-server.

mod queries;
mod trouble;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tempfile::TempDir;
pub use trouble::Busy;

use crate::{
    authority::{Authority, Certificate},
    clock::ClockShim,
    port,
    process::Process,
    wait::{LIMIT, wait_blocking},
};

/// How often another port is tried.
const PORTS: usize = 20;

/// The file in a server's directory that says how far its clock is ahead.
const CLOCK: &str = "clock";

/// The name of the harness's own connections, by which they are told from those of a client.
pub(crate) const NAME: &str = "harness";

/// A running redis-server on a port of 127.0.0.1, without persistence unless asked for. It is
/// killed when this value is dropped, and when the test's process ends in any way.
pub struct Server {
    settings: ServerBuilder,
    directory: TempDir,
    port: u16,
    /// Where it listens for TLS; zero when it does not.
    tls_port: u16,
    /// `None` while killed.
    process: Mutex<Option<Process>>,
    /// The harness's own connection, opened at need.
    connection: Mutex<Option<redis::Connection>>,
}

/// The settings of a [`Server`].
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is started until `start`"]
pub struct ServerBuilder {
    arguments: Vec<String>,
    password: Option<String>,
    unix_socket: bool,
    /// Files that the server finds in its directory, by name.
    files: Vec<(String, String)>,
    tls: bool,
    /// The program, if not redis-server.
    program: Option<PathBuf>,
    /// The library that lets a test set the server's clock.
    clock: Option<PathBuf>,
}

/// The state that a started server has to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// It serves.
    Serving,
    /// It loads its data, and serves nothing but questions about itself.
    Loading,
}

impl ServerBuilder {
    /// The default user needs this password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.argument(&["--requirepass", password])
    }

    /// An ACL user, as in a line of an ACL file: `user(&["alice", "on", ">secret", "~*", "+@all"])`.
    pub fn user(self, rules: &[&str]) -> Self {
        self.argument(&["--user"]).argument(rules)
    }

    /// Listens on a Unix socket too: [`Server::socket`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Writes every change to an append-only file before it answers: what was answered outlives
    /// [`Server::kill`].
    pub fn append_only(self) -> Self {
        self.argument(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A replica of `master`.
    pub fn replica_of(self, master: &Server) -> Self {
        self.argument(&["--replicaof", &format!("127.0.0.1 {}", master.port)])
    }

    /// With a wall clock that the test sets. The shim must outlive it.
    pub fn clock(mut self, shim: &ClockShim) -> Self {
        self.clock = Some(shim.path());
        self
    }

    /// Listens for TLS too, with this certificate: [`Server::tls_url`]. `clients` is the authority that
    /// has to have signed the certificates of clients, which then need one.
    pub fn tls(mut self, certificate: &Certificate, clients: Option<&Authority>) -> Self {
        let any = Authority::new("unused").pem();
        let authority = clients.map_or(any, Authority::pem);
        for (name, content) in
            [("crt", &certificate.pem), ("key", &certificate.key), ("ca", &authority)]
        {
            self.files.push((format!("server.{name}"), content.clone()));
        }
        self.tls = true;
        let asks = if clients.is_some() { "yes" } else { "no" };
        self.argument(&["--tls-cert-file", "server.crt", "--tls-key-file", "server.key"])
            .argument(&["--tls-ca-cert-file", "server.ca", "--tls-auth-clients", asks])
    }

    /// Another program that understands the arguments of redis-server.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Any other argument of redis-server.
    pub fn argument(mut self, words: &[&str]) -> Self {
        self.arguments.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Starts the server; returns once it answers.
    pub fn start(self) -> Server {
        let directory = tempfile::Builder::new().prefix("redlock-").tempdir().unwrap();
        for _ in 0..PORTS {
            let port = port::free();
            let tls_port = if self.tls { port::free() } else { 0 };
            if let Some(process) = self.spawn(directory.path(), port, tls_port, Ready::Serving) {
                return Server {
                    settings: self,
                    directory,
                    port,
                    tls_port,
                    process: Mutex::new(Some(process)),
                    connection: Mutex::default(),
                };
            }
        }
        panic!("every one of {PORTS} ports was taken by another program in the meantime");
    }

    /// A server that answers on this port, or `None` when the port is taken.
    fn spawn(&self, directory: &Path, port: u16, tls_port: u16, wanted: Ready) -> Option<Process> {
        let log = directory.join("log");
        // The output of an earlier run must not be read as that of this run.
        let _ = fs::remove_file(&log);
        for (name, content) in &self.files {
            fs::write(directory.join(name), content).unwrap();
        }
        let program = self.program.as_ref().map(|it| it.display().to_string());
        let mut arguments = vec![program.unwrap_or_else(|| "redis-server".to_owned())];
        if let Some(library) = &self.clock {
            let clock = directory.join(CLOCK);
            if !clock.exists() {
                fs::write(&clock, 0_i64.to_ne_bytes()).unwrap();
            }
            let preload = format!("LD_PRELOAD={}", library.display());
            arguments.splice(0..0, [preload, format!("REDLOCK_CLOCK={}", clock.display())]);
        }
        arguments.extend([
            "--port".to_owned(),
            port.to_string(),
            "--bind".to_owned(),
            "127.0.0.1".to_owned(),
            "--dir".to_owned(),
            directory.display().to_string(),
            "--save".to_owned(),
            String::new(),
            // A replica must not wait for others to come.
            "--repl-diskless-sync-delay".to_owned(),
            "0".to_owned(),
            "--enable-debug-command".to_owned(),
            "yes".to_owned(),
        ]);
        if self.tls {
            arguments.extend(["--tls-port".to_owned(), tls_port.to_string()]);
        }
        if self.unix_socket {
            arguments.push("--unixsocket".to_owned());
            arguments.push(socket(directory).display().to_string());
        }
        arguments.extend(self.arguments.iter().cloned());
        if wanted == Ready::Loading {
            arguments.extend(trouble::SLOW_LOADING.map(str::to_owned));
        }
        // It sets the environment of the one program and becomes it.
        let process = Process::start("env", arguments, &log);

        let mut taken = false;
        let ready = wait_blocking(|| {
            let words = fs::read_to_string(&log).unwrap_or_default();
            assert!(
                !words.lines().any(|line| line.starts_with("env: ")),
                "redis-server is not on the PATH: `cargo xtask test` installs it"
            );
            taken = words.contains("Failed listening on port");
            // Another program that listens on the port would answer a PING as well.
            taken || self.process_behind(port, wanted) == Some(process.id())
        });
        if taken {
            return None;
        }
        assert!(
            ready,
            "redis-server did not answer within {LIMIT:?}; it said:\n{}",
            fs::read_to_string(&log).unwrap_or_default()
        );
        Some(process)
    }

    /// The process id of the server that is in this state on this port.
    fn process_behind(&self, port: u16, wanted: Ready) -> Option<i32> {
        let mut connection = self.connect(port).ok()?;
        let pong = redis::cmd("PING").query::<String>(&mut connection);
        let info: String = redis::cmd("INFO").query(&mut connection).ok()?;
        match wanted {
            Ready::Serving => drop(pong.ok()?),
            Ready::Loading => drop(info.contains("loading:1").then_some(())?),
        }
        info.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
    }

    fn connect(&self, port: u16) -> redis::RedisResult<redis::Connection> {
        let password = self.password.as_deref().map(|word| format!(":{word}@")).unwrap_or_default();
        let client = redis::Client::open(format!("redis://{password}127.0.0.1:{port}"))?;
        let mut connection = client.get_connection_with_timeout(LIMIT)?;
        connection.set_read_timeout(Some(LIMIT))?;
        redis::cmd("CLIENT").arg(&["SETNAME", NAME]).exec(&mut connection)?;
        Ok(connection)
    }
}

impl Server {
    /// A server with default settings.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with these settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The port, which stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`, as errors name this node.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL without user, password and database.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The URL with TLS of a server that was built with it. The host is `localhost`.
    pub fn tls_url(&self) -> String {
        assert!(self.settings.tls, "this server was built without TLS");
        format!("rediss://localhost:{}", self.tls_port)
    }

    /// Shows another certificate from the next connection on.
    pub fn replace_certificate(&self, certificate: &Certificate) {
        for (name, content) in [("crt", &certificate.pem), ("key", &certificate.key)] {
            fs::write(self.directory.path().join(format!("next.{name}")), content).unwrap();
        }
        let files = ["tls-cert-file", "next.crt", "tls-key-file", "next.key"];
        self.command(&[&["CONFIG", "SET"], &files[..]].concat());
    }

    /// The path of the Unix socket of a server that was built with one.
    pub fn socket(&self) -> PathBuf {
        assert!(self.settings.unix_socket, "this server was built without a Unix socket");
        socket(self.directory.path())
    }

    /// SIGKILL; returns once the process is gone and its port refuses connections.
    pub fn kill(&self) {
        self.forget_connection();
        lock(&self.process).take();
    }

    /// Starts a killed server again on the same port, with what it had on disk.
    pub fn start_again(&self) {
        self.start_again_until(Ready::Serving);
    }

    fn start_again_until(&self, wanted: Ready) {
        let mut process = lock(&self.process);
        assert!(process.is_none(), "the server on port {} runs already", self.port);
        let directory = self.directory.path();
        let started = self.settings.spawn(directory, self.port, self.tls_port, wanted);
        assert!(started.is_some(), "port {} was taken while its server was down", self.port);
        *process = started;
    }

    /// Kills the server and starts it again on the same port without any data.
    pub fn restart_empty(&self) {
        self.kill();
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        self.start_again();
    }

    /// Kills the server and starts it again on the same port with the data it had.
    pub fn restart_with_data(&self) {
        self.command(&["SAVE"]);
        self.kill();
        self.start_again();
    }

    /// SIGSTOP: the server takes connections and bytes, and answers nothing. Returns once it
    /// stands still.
    pub fn pause(&self) {
        self.with_process(Process::pause);
    }

    /// SIGCONT: the server goes on where it was, with all that was sent to it meanwhile.
    pub fn resume(&self) {
        self.with_process(Process::resume);
    }

    fn with_process(&self, act: impl FnOnce(&Process)) {
        match &*lock(&self.process) {
            Some(process) => act(process),
            None => panic!("the server on port {} is not running", self.port),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

/// A failed test may have poisoned the lock; its server must be stopped all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
