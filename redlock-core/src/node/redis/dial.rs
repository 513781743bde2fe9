//! The bytes to a server: a socket, with TLS or without.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::future::{FutureExt, select_ok};
use redis::io::tcp::socket2;
use tokio::net::TcpStream;

#[cfg(feature = "tls-rustls")]
use super::tls::Tls;
use super::{
    lookup::Lookups,
    socket::Socket,
    transport::{CloseReason, Transport},
    url::Address,
};

/// A client notices within half a minute that the host of an idle connection has gone.
const IDLE_BEFORE_PROBES: Duration = Duration::from_secs(15);
const BETWEEN_PROBES: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// The same limit for a busy connection, where Linux would send again for a quarter of an hour.
/// Timeouts find shorter hangs (rule 15).
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Opens sockets.
pub(super) struct Dialer {
    pub(super) lookups: Arc<Lookups>,
    #[cfg(feature = "tls-rustls")]
    pub(super) tls: Tls,
}

impl Dialer {
    pub(super) async fn dial(
        &self,
        address: &Address,
        close_reason: CloseReason,
    ) -> Result<Transport, String> {
        // Tokio panics in a runtime that was built without IO, and its message says what to do.
        let dialled = AssertUnwindSafe(self.dial_or_panic(address, close_reason));
        dialled.catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("connecting panicked: {}", text.unwrap_or("it does not say why")))
        })
    }

    async fn dial_or_panic(
        &self,
        address: &Address,
        close_reason: CloseReason,
    ) -> Result<Transport, String> {
        match address {
            Address::Tcp { host, port } => {
                Ok(Transport::new(Socket::new(self.tcp(host, *port).await?), close_reason))
            }
            #[cfg(feature = "tls-rustls")]
            Address::Tls { host, port } => {
                let tcp = Socket::new(self.tcp(host, *port).await?);
                Ok(Transport::new(self.tls.secure(host, tcp).await?, close_reason))
            }
            #[cfg(unix)]
            Address::Unix(path) => match tokio::net::UnixStream::connect(path).await {
                Ok(stream) => Ok(Transport::new(Socket::new(stream), close_reason)),
                Err(error) => Err(error.to_string()),
            },
            #[cfg(not(unix))]
            Address::Unix(_) => Err("there are no Unix sockets on this platform".to_owned()),
        }
    }

    /// Connects to all addresses of the host at once and takes the first that answers: one dead
    /// address of two would otherwise use up the whole time.
    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let addresses = self.lookups.find(host, port).await?;
        let attempts = addresses.into_iter().map(|it| Box::pin(TcpStream::connect(it)));
        let attempts: Vec<_> = attempts.collect();
        if attempts.is_empty() {
            return Err(format!("cannot resolve {host}: it has no address"));
        }
        let (stream, _) = select_ok(attempts).await.map_err(|error| error.to_string())?;
        set_up(&stream).map_err(|error| error.to_string())?;
        Ok(stream)
    }
}

fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    // Nagle's algorithm would hold a small command back until the previous command is
    // acknowledged.
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new()
            .with_time(IDLE_BEFORE_PROBES)
            .with_interval(BETWEEN_PROBES)
            .with_retries(PROBES),
    )?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_send_at_once_and_find_out_about_dead_hosts() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialer = Dialer {
            lookups: Lookups::new(),
            #[cfg(feature = "tls-rustls")]
            tls: Tls::new(
                crate::node::settings::TlsSettings::default(),
                IDLE_BEFORE_PROBES,
                IDLE_BEFORE_PROBES,
            )
            .unwrap(),
        };
        let stream = dialer.tcp("127.0.0.1", port).await.unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE_BEFORE_PROBES);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
        }
    }
}
