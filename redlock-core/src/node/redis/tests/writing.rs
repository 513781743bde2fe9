//! What is written: by sockets that take only some of the bytes, and last of all.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    net::TcpStream,
};

use super::{
    super::{connection::RedisConnection, exchange::Exchange},
    *,
};
use crate::node::{Remaining, Watchers};

/// Takes three bytes, then none until it is asked again.
struct Reluctant {
    stream: TcpStream,
    takes: bool,
}

impl AsyncRead for Reluctant {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Stream for Reluctant {
    fn leave_runtime(&mut self) -> bool {
        true
    }
}

impl Stream for DuplexStream {
    fn leave_runtime(&mut self) -> bool {
        true
    }
}

impl AsyncWrite for Reluctant {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.takes = !self.takes;
        if !self.takes {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let three = &buf[..buf.len().min(3)];
        Pin::new(&mut self.stream).poll_write(cx, three)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection over this stream, to a server that pushes changes to these listeners.
fn over(stream: impl Stream + 'static, watchers: Option<Arc<Watchers>>) -> RedisConnection {
    let mutes = watchers.is_some();
    RedisConnection::new(Exchange::new(Setup { mutes, watchers, ..setup(stream) }))
}

#[tokio::test]
async fn commands_written_three_bytes_at_a_time_arrive_whole_and_in_order() {
    let mut server = Server::start();
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let node = over(Reluctant { stream, takes: false }, None);
    let mut node = driven(Box::new(node));

    // Commands that are sent while the socket has not taken all of the earlier commands.
    let extend = Action::Extend { ttl: TTL };
    let claims: Vec<_> =
        (0..20).map(|number| claim(&format!("redlock:{number}"), CANARY)).collect();
    let sending: Vec<_> = claims
        .iter()
        .map(|claim| {
            let commands = [(claim, GRANT), (claim, extend), (claim, RELEASE), (claim, GRANT)];
            let mut sending = node.sender().send(commands.iter().map(command).collect());
            assert!((&mut sending).now_or_never().is_none());
            sending
        })
        .collect();
    for sending in sending {
        let answers: Vec<_> =
            within(sending).await.into_iter().map(|it| it.map(without_time)).collect();
        assert_eq!(answers, [const { Ok(Reply::Done) }; 4]);
    }
    within(node.ping()).await.unwrap();
    assert_eq!(server.number("DBSIZE"), 20);
    for claim in &claims {
        assert_eq!(act(&mut *node, claim, RELEASE).await, Ok(Reply::Done));
    }
    assert_eq!(server.number("DBSIZE"), 0);
}

const MUTE: &str = "*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n";

/// A connection that is closed with answers to read is reset, and the server may drop what it has not
/// read yet.
#[tokio::test]
async fn the_last_commands_ask_for_no_answers_where_the_server_knows_the_word() {
    for tells in [true, false] {
        let (stream, mut server) = tokio::io::duplex(64 * 1024);
        let node = over(stream, tells.then(Arc::default));
        node.sender().send_last(vec![Command { claim: claim("a", CANARY), action: RELEASE }]);
        drop(node);
        let mut written = String::new();
        server.read_to_string(&mut written).await.unwrap();
        assert_eq!(written.starts_with(MUTE), tells, "{written}");
        assert!(written.contains("\r\nEVAL\r\n") && written.contains(CANARY), "{written}");
    }
}

#[tokio::test]
async fn answers_to_earlier_commands_are_read_before_the_connection_may_close() {
    const PING: &str = "*1\r\n$4\r\nPING\r\n";
    let (stream, mut server) = tokio::io::duplex(64 * 1024);
    let node = over(stream, Some(Arc::default()));
    let sender = node.sender();
    let claims = [claim("a", CANARY), claim("b", CANARY)];
    let release = |claim: &Arc<Claim>| vec![Command { claim: Arc::clone(claim), action: RELEASE }];
    let mut sending = sender.send(release(&claims[0]));
    assert!((&mut sending).now_or_never().is_none());
    sender.send_last(Vec::new());
    sender.send_last(release(&claims[1]));
    assert_eq!(sender.carry_last(), Remaining::Answers);

    let mut written = vec![0; 64 * 1024];
    let length = server.read(&mut written).await.unwrap();
    let written = std::str::from_utf8(&written[..length]).unwrap();
    assert_eq!((written.matches(PING).count(), written.matches(MUTE).count()), (1, 1));
    let places = ["\r\na\r\n", PING, MUTE, "\r\nb\r\n"].map(|it| written.find(it).unwrap());
    assert!(places.is_sorted(), "{places:?} in {written}");

    server.write_all(b":1\r\n").await.unwrap();
    assert_eq!(sender.carry_last(), Remaining::Answers);
    server.write_all(b"+PONG\r\n").await.unwrap();
    assert_eq!(sender.carry_last(), Remaining::Nothing);
}

#[tokio::test]
async fn a_server_that_hangs_up_is_heard_out() {
    let (stream, server) = tokio::io::duplex(64 * 1024);
    let node = over(stream, None);
    let sender = node.sender();
    let mut sending = sender.send(vec![command(&(&claim("a", CANARY), GRANT))]);
    assert!((&mut sending).now_or_never().is_none());
    sender.send_last(Vec::new());
    assert_eq!(sender.carry_last(), Remaining::Answers);
    drop(server);
    assert_eq!(sender.carry_last(), Remaining::Nothing);
}

#[tokio::test]
async fn what_is_not_written_is_left_to_do() {
    let (stream, mut server) = tokio::io::duplex(64);
    let node = over(stream, None);
    let sender = node.sender();
    sender.send_last(vec![command(&(&claim("a", CANARY), RELEASE))]);
    assert_eq!(sender.carry_last(), Remaining::Commands);
    let mut buffer = [0; 64];
    while sender.carry_last() == Remaining::Commands {
        assert!(server.read(&mut buffer).await.unwrap() > 0);
        // A task that goes on for long is told by tokio that nothing is ready.
        tokio::task::yield_now().await;
    }
    // The server answers, as it was not told otherwise.
    assert_eq!(sender.carry_last(), Remaining::Answers);
    server.write_all(b":1\r\n").await.unwrap();
    assert_eq!(sender.carry_last(), Remaining::Nothing);
}

async fn until(mut holds: impl FnMut() -> bool) {
    within(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A server that answers nothing goes on to push.
#[tokio::test]
async fn a_server_that_was_asked_to_push_changes_is_asked_to_stop() {
    for mutes in [true, false] {
        let (stream, mut server) = tokio::io::duplex(64 * 1024);
        let node = over(stream, mutes.then(Arc::default));
        let sender = node.sender();
        let mut sending = sender.send(vec![command(&(&claim("a", CANARY), Action::Watch))]);
        assert!((&mut sending).now_or_never().is_none());
        sender.send_last(Vec::new());
        let mut written = vec![0; 64 * 1024];
        let length = server.read(&mut written).await.unwrap();
        let written = std::str::from_utf8(&written[..length]).unwrap();
        let at = ["TRACKING", "PING", MUTE].map(|it| written.find(it));
        if mutes {
            assert!(at[0].is_some() && at.is_sorted(), "{at:?} in {written}");
            assert_eq!(sender.carry_last(), Remaining::Answers);
            server.write_all(b"+OK\r\n$-1\r\n+OK\r\n+PONG\r\n").await.unwrap();
            assert_eq!(sender.carry_last(), Remaining::Nothing);
            sender.send_last(vec![command(&(&claim("b", CANARY), RELEASE))]);
            assert!(server.read(&mut [0; 64]).await.unwrap() > 0);
        } else {
            assert_eq!(at, [None; 3], "it does not push: {written}");
        }
    }
}

/// The refusal would be taken for the answer to a delete.
#[tokio::test]
async fn a_server_that_refuses_to_be_silent_is_not_asked_to() {
    let mut server = Server::start();
    for (rules, mutes) in [("", true), ("-client|reply", false), ("-client|tracking", false)] {
        server.admin(&format!("ACL SETUSER locks reset on >{CANARY} ~* +@all {rules}"));
        let mut node = connected(&server.url(&format!("locks:{CANARY}@"), "")).await;
        let claims = ["a", "b", "c"].map(|it| claim(it, CANARY));
        for claim in &claims {
            assert_eq!(act(&mut *node, claim, GRANT).await, Ok(Reply::Done));
        }
        server.admin("CONFIG RESETSTAT");
        let sender = node.sender();
        let mut sending = sender.send(vec![command(&(&claims[0], RELEASE))]);
        assert!((&mut sending).now_or_never().is_none());
        for claim in &claims[1..] {
            sender.send_last(vec![command(&(claim, RELEASE))]);
            until(|| sender.carry_last() == Remaining::Nothing).await;
        }
        drop(node);
        until(|| server.number("DBSIZE") == 0).await;
        let commands = server.text("INFO commandstats");
        assert_eq!(commands.contains("client|reply"), mutes, "{rules:?}: {commands}");
    }
}
