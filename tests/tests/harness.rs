//! The harness keeps its own promises: servers come, go and end with their test, and the proxy
//! does what it says. Without this a green suite could mean that nothing was disturbed.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use redlock_tests::{Flow, Nodes, Proxy, Server, wait_until};

/// A connection to `host:port` that never waits for ever.
fn dial(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(redlock_tests::LIMIT)).unwrap();
    stream
}

/// Sends PING and reads the answer.
fn ping(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Nothing to read for now.
fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let silent = matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    silent
}

#[test]
fn a_dropped_server_is_gone() {
    let server = Server::start();
    let address = server.address();
    assert_eq!(ping(&mut dial(&address)).unwrap(), "+PONG\r\n");
    drop(server);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_server_ends_when_its_test_panics_even_while_it_is_paused() {
    let mut address = String::new();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let server = Server::start();
        server.pause();
        address = server.address();
        panic!("a test fails");
    }));
    assert!(panic.is_err());
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_server_ends_when_the_process_that_started_it_is_killed() {
    // Killed, it cannot clear up after itself: this test does.
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_redlock-process"))
        .arg("serve")
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();
    assert_eq!(ping(&mut dial(address)).unwrap(), "+PONG\r\n");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the server is gone", async || TcpStream::connect(address).is_err()).await;
}

#[test]
fn a_killed_server_comes_back_on_its_port_with_or_without_its_data() {
    let server = Server::start();
    let port = server.port();
    server.command(&["SET", "a", "1", "PX", "60000"]);
    server.restart_with_data();
    assert_eq!((server.get("a"), server.port()), (Some("1".to_owned()), port));
    server.restart_empty();
    assert_eq!((server.keys(), server.port()), (vec![], port));
}

#[test]
fn an_append_only_server_keeps_what_it_answered() {
    let server = Server::builder().append_only().start();
    server.command(&["SET", "a", "1"]);
    server.kill();
    server.start_again();
    assert_eq!(server.get("a").as_deref(), Some("1"));
}

#[test]
fn a_paused_server_takes_bytes_and_answers_once_it_goes_on() {
    let server = Server::start();
    let mut stream = dial(&server.address());
    server.pause();
    stream.write_all(b"SET a 1\r\n").unwrap();
    assert!(is_silent(&mut stream));
    server.resume();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    assert_eq!(server.get("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn servers_come_with_passwords_users_sockets_and_masters() {
    let server = Server::builder()
        .password("secret")
        .user(&["alice", "on", ">pw", "~*", "+@all"])
        .unix_socket()
        .start();
    assert!(ping(&mut dial(&server.address())).unwrap().starts_with("-NOAUTH"));
    let url = format!("redis://alice:pw@{}", server.address());
    redis::Client::open(url).unwrap().get_connection().unwrap();
    assert!(server.socket().exists());

    let master = Server::start();
    let replica = Server::builder().replica_of(&master).start();
    master.command(&["SET", "a", "1"]);
    wait_until("the replica has the key", async || replica.get("a").is_some()).await;
}

#[test]
fn a_monitor_sees_the_clients_and_not_the_harness() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let mut client = client.get_connection().unwrap();
    let monitor = server.monitor();
    redis::cmd("SET").arg("a").arg("1").exec(&mut client).unwrap();
    redis::cmd("EVAL").arg("return redis.call('del', 'a')").arg(0).exec(&mut client).unwrap();
    assert_eq!(server.keys().len(), 0);
    let seen = monitor.finish();
    let names: Vec<_> = seen.iter().map(|c| (c.name(), c.is_inside_script())).collect();
    let expected = [("SET", false), ("EVAL", false), ("DEL", true)];
    assert_eq!(names, expected.map(|(name, inside)| (name.to_owned(), inside)));
    assert_eq!(server.clients().len(), 1);
}

#[test]
fn nodes_know_how_many_of_them_have_a_key() {
    let nodes = Nodes::start(3);
    assert!(nodes.are_empty());
    nodes[1].command(&["SET", "a", "1", "PX", "60000"]);
    assert_eq!((nodes.holding("a"), nodes.are_empty()), (1, false));
    let ttl = nodes[1].ttl("a").unwrap();
    assert!(ttl <= Duration::from_secs(60) && nodes[0].ttl("a").is_none());
}

#[test]
fn a_proxy_passes_everything_whole_or_in_single_bytes() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut stream = dial(&proxy.address());
    for flow in [Flow::Pass, Flow::PerByte] {
        proxy.both(flow);
        assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n", "{flow:?}");
    }
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn a_proxy_delays_each_byte_by_the_same_time() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut stream = dial(&proxy.address());
    let delay = Duration::from_millis(50);
    proxy.replies(Flow::Delay(delay));
    let start = Instant::now();
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    assert!(start.elapsed() >= delay);
}

#[tokio::test]
async fn a_held_flow_loses_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut stream = dial(&proxy.address());
    ping(&mut stream).unwrap();
    proxy.requests(Flow::Hold);
    stream.write_all(b"SET a 1\r\n").unwrap();
    assert!(server.keys().is_empty());
    proxy.requests(Flow::Pass);
    wait_until("the command has arrived", async || server.get("a").is_some()).await;
}

#[tokio::test]
async fn discarded_replies_leave_the_command_done_and_end_the_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut stream = dial(&proxy.address());
    proxy.replies(Flow::Discard);
    stream.write_all(b"SET a 1\r\n").unwrap();
    wait_until("the reply is lost", async || proxy.discarded() > 0).await;
    assert_eq!(server.get("a").as_deref(), Some("1"));
    assert!(is_silent(&mut stream));
    proxy.replies(Flow::Pass);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn a_half_open_connection_hides_that_the_server_is_gone() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut stream = dial(&proxy.address());
    ping(&mut stream).unwrap();
    proxy.both(Flow::Hold);
    server.kill();
    stream.write_all(b"PING\r\n").unwrap();
    assert!(is_silent(&mut stream));
    assert_eq!(proxy.connections(), 1);
    proxy.both(Flow::Pass);
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_proxy_cuts_closes_and_refuses() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());

    let mut stream = dial(&proxy.address());
    ping(&mut stream).unwrap();
    proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);

    let mut stream = dial(&proxy.address());
    ping(&mut stream).unwrap();
    proxy.close();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    wait_until("no connection is left", async || proxy.connections() == 0).await;

    proxy.refuse();
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.accept();
    assert_eq!(ping(&mut dial(&proxy.address())).unwrap(), "+PONG\r\n");
}
