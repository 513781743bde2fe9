//! The sockets of this process, as the kernel tells.

use std::{collections::BTreeSet, path::PathBuf};

/// How many sockets of this process are connected to a port of 127.0.0.1. These are the sockets of
/// clients, also of clients that hear nothing of the other side.
///
/// A process that is being started has copies of all of them until it runs its program. Those do
/// not count: this process may have closed its own.
pub fn connected_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let connected: BTreeSet<_> =
        table.lines().skip(1).filter_map(|line| connected_inode(line, port)).collect();
    // Read second: what was closed in between is not there any more.
    connected.intersection(&own()).count()
}

/// The inode of a socket that is connected to this port:
/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ..`
fn connected_inode(line: &str, port: u16) -> Option<PathBuf> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_connected = words[2] == format!("0100007F:{port:04X}") && words[3] == "01";
    is_connected.then(|| format!("socket:[{}]", words[9]).into())
}

/// The files that this process has open.
fn own() -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    // Closed in between, a file has no link.
    files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::OwnedFd,
        process::Command,
    };

    use super::*;

    #[test]
    fn open_connections_are_counted_and_closed_ones_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let streams = [TcpStream::connect(("127.0.0.1", port)), listener.accept().map(|(s, _)| s)];
        assert_eq!(connected_to(port), 1);
        drop(streams);
        assert_eq!(connected_to(port), 0);
    }
    #[test]
    fn copies_of_other_processes_are_not_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (other_end, _) = listener.accept().unwrap();
        let mut child = Command::new("cat").stdin(OwnedFd::from(stream)).spawn().unwrap();
        assert_eq!(connected_to(port), 0);
        drop(other_end);
        assert!(child.wait().unwrap().success());
    }
}
