//! Sockets that take only some of the bytes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{
    super::{
        abilities::Abilities,
        connection::RedisConnection,
        exchange::{Exchange, Setup},
        transport::{CloseReason, Transport},
    },
    *,
};

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

#[tokio::test]
async fn commands_written_three_bytes_at_a_time_arrive_whole_and_in_order() {
    let mut server = Server::start();
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let close_reason = CloseReason::default();
    let transport = Transport::new(Reluctant { stream, takes: false }, close_reason.clone());
    let exchange = Exchange::new(Setup {
        node: "a:1".into(),
        transport,
        close_reason,
        watchers: None,
        abilities: Abilities { scripts: true, delete: None },
        wait: None,
        is_member: false,
    });
    let mut node = driven(Box::new(RedisConnection::new(exchange)));

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
