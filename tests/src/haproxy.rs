//! A HAProxy in front of a server.

use std::{
    fmt, fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use tempfile::TempDir;

use crate::{namespace::skipped, port, process::Process, server::Server, wait::wait_blocking};

/// Where packages put it when it is not on the PATH of a user.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

/// A HAProxy that passes TCP on to one server.
pub struct Haproxy {
    port: u16,
    directory: TempDir,
    _process: Process,
}

impl Haproxy {
    /// In front of this server; it closes connections that are silent for `idle`. `None`, and said so,
    /// where HAProxy is not installed.
    pub fn start(test: &str, server: &Server, idle: Duration) -> Option<Self> {
        let program = PLACES.map(|it| PathBuf::from(it).join("haproxy"));
        let Some(program) = program.iter().find(|it| it.is_file()) else {
            skipped(test, "haproxy is not installed: `cargo xtask test` tries to");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("redlock-haproxy-").tempdir().unwrap();
        let (port, idle) = (port::free(), idle.as_millis());
        let config = format!(
            "global\n  stats socket {} level admin\n\
             defaults\n  mode tcp\n  timeout connect 5s\n  timeout client {idle}ms\n  timeout server {idle}ms\n\
             frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
             backend back\n  server one 127.0.0.1:{}\n",
            directory.path().join("admin").display(),
            server.port(),
        );
        let file = directory.path().join("haproxy.cfg");
        fs::write(&file, config).unwrap();
        let arguments = ["-db".to_owned(), "-f".to_owned(), file.display().to_string()];
        let log = directory.path().join("log");
        let process = Process::start(&program.display().to_string(), arguments, &log);
        let haproxy = Self { port, directory, _process: process };
        let up = wait_blocking(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(up, "haproxy said:\n{}", fs::read_to_string(&log).unwrap_or_default());
        Some(haproxy)
    }

    /// The URL of the server behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Puts another server behind it, and ends the connections to the one before.
    pub fn switch_to(&self, server: &Server) {
        self.tell(&format!("set server back/one addr 127.0.0.1 port {}", server.port()));
        self.tell("shutdown sessions server back/one");
    }

    fn tell(&self, order: &str) {
        let mut socket = UnixStream::connect(self.directory.path().join("admin")).unwrap();
        writeln!(socket, "{order}").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains("Unknown") && !answer.contains("denied"), "{order}: {answer}");
    }
}

impl fmt::Debug for Haproxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Haproxy").field("port", &self.port).finish_non_exhaustive()
    }
}
