//! The sockets of this machine, as the kernel tells.

/// How many sockets on this machine are connected to a port of 127.0.0.1 and belong to a process.
/// These are the sockets of clients, also of clients that hear nothing of the other side.
pub fn connected_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).filter(|line| is_connected_to(line, port)).count()
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ..`
fn is_connected_to(line: &str, port: u16) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    // Closed by its process, a socket lingers without an inode.
    words[2] == format!("0100007F:{port:04X}") && words[3] == "01" && words[9] != "0"
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

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
}
