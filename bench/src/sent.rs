//! Counts the commands that clients send.
//!
//! The counters of a server do not tell a command that a client sent from a command that a script
//! called. MONITOR does. It costs the server time, so figures that depend on time are taken without
//! it.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use redlock_tests::Server;

/// Counts what is sent to some servers, from [`start`](Self::start) until it is dropped.
#[derive(Debug)]
pub(crate) struct Sent {
    count: Arc<AtomicU64>,
    readers: Vec<(TcpStream, Option<JoinHandle<()>>)>,
}

impl Sent {
    /// Counts from now on.
    pub(crate) fn start(servers: &[Server]) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let reader = |server: &Server| {
            let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
            let mut lines = BufReader::with_capacity(
                256 * 1024,
                stream.try_clone().expect("a descriptor for a stream"),
            );
            (&stream).write_all(b"MONITOR\r\n").expect("a server that reads");
            let mut line = Vec::new();
            let answer = lines.read_until(b'\n', &mut line);
            assert!(answer.is_ok() && line.starts_with(b"+OK"), "MONITOR was refused");
            let count = Arc::clone(&count);
            let reader = thread::spawn(move || {
                loop {
                    line.clear();
                    match lines.read_until(b'\n', &mut line) {
                        Ok(1..) if is_sent(&line) => {
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(1..) => {}
                        Ok(0) | Err(_) => return,
                    }
                }
            });
            (stream, Some(reader))
        };
        let readers = servers.iter().map(reader).collect();
        Self { count, readers }
    }

    /// The count so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        for (stream, reader) in &mut self.readers {
            let _ = stream.shutdown(Shutdown::Both);
            if let Some(reader) = reader.take() {
                let _ = reader.join();
            }
        }
    }
}

/// `+1700000000.000000 [0 127.0.0.1:5000] "SET" ..` was sent; a script has `lua` for the address.
fn is_sent(line: &[u8]) -> bool {
    let Some(end) = line.iter().position(|byte| *byte == b']') else { return false };
    !line[..end].ends_with(b" lua")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_not_sent() {
        assert!(is_sent(b"+1700000000.1 [0 127.0.0.1:5000] \"EVALSHA\" \"lua]\"\r\n"));
        assert!(!is_sent(b"+1700000000.1 [0 lua] \"GET\" \"key\"\r\n"));
        assert!(!is_sent(b"+OK\r\n"));
    }

    #[test]
    fn a_script_is_one_command() {
        let server = Server::start();
        let sent = Sent::start(std::slice::from_ref(&server));
        server.command(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "key"]);
        server.command(&["SET", "key", "value"]);
        let end = std::time::Instant::now() + redlock_tests::LIMIT;
        // The harness names its connection first.
        while sent.count() < 3 && std::time::Instant::now() < end {
            thread::yield_now();
        }
        assert_eq!(sent.count(), 3);
    }
}
