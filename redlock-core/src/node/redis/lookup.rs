//! Looks the addresses of a host up.
//!
//! The operating system is asked on a thread, which cannot be told to stop. While it gets no answer, each attempt
//! to connect would leave one more thread behind. So an attempt waits for the lookup that is under way, if there is
//! one: a node is back when the operating system has given up what it asked for before.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use futures_util::future::{FutureExt, Shared};
use tokio::sync::oneshot;

use super::transport::RUNTIME_ENDED;
use crate::sync::Mutex;

/// The addresses, without a port.
type Resolved = Result<Arc<[SocketAddr]>, Arc<str>>;
type Resolve = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The lookups of one node that are under way.
pub(super) struct Lookups {
    resolve: Box<Resolve>,
    in_flight: Mutex<BTreeMap<Arc<str>, Shared<oneshot::Receiver<Resolved>>>>,
}

/// A lookup that is under way until this is dropped, however it ends.
struct Lookup {
    all: Arc<Lookups>,
    host: Arc<str>,
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.all.in_flight.lock().remove(&self.host);
    }
}

impl Lookups {
    pub(super) fn new() -> Arc<Self> {
        Self::with(|host| Ok((host, 0).to_socket_addrs()?.collect()))
    }

    fn with(
        resolve: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { resolve: Box::new(resolve), in_flight: Mutex::default() })
    }

    /// The addresses of this host. Dropping the future leaves the lookup to the next one.
    pub(super) async fn find(
        self: &Arc<Self>,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let answer = match self.join(host).await {
            Ok(answer) => answer.map_err(|why| why.to_string()),
            Err(_) => Err(RUNTIME_ENDED.to_owned()),
        };
        let found = answer.map_err(|why| format!("cannot resolve {host}: {why}"))?;
        let mut found = found.to_vec();
        found.iter_mut().for_each(|it| it.set_port(port));
        Ok(found)
    }

    /// The lookup of this host that is under way, or a new one.
    fn join(self: &Arc<Self>, host: &str) -> Shared<oneshot::Receiver<Resolved>> {
        let (tell, told) = oneshot::channel();
        let (lookup, told) = {
            let mut in_flight = self.in_flight.lock();
            if let Some(told) = in_flight.get(host) {
                return told.clone();
            }
            let (host, told) = (Arc::<str>::from(host), told.shared());
            in_flight.insert(Arc::clone(&host), told.clone());
            (Lookup { all: Arc::clone(self), host }, told)
        };
        // Not under the lock: a runtime that has ended drops the lookup at once.
        tokio::task::spawn_blocking(move || {
            let found = (lookup.all.resolve)(&lookup.host);
            // The next attempt is to ask anew.
            drop(lookup);
            // All attempts that waited for it may have gone.
            let _ = tell.send(found.map(Arc::from).map_err(|error| error.to_string().into()));
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    /// Far more than any step here takes, however busy the machine is.
    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn attempts_share_the_lookup_that_is_under_way() {
        let (asked, count) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let lookups = Lookups::with(move |host| {
            asked.send(host.to_owned()).unwrap();
            answers.lock().recv_timeout(LIMIT).unwrap()
        });
        for _ in 0..5 {
            let given_up = timeout(Duration::from_millis(1), lookups.find("h", 1)).await;
            assert!(given_up.is_err(), "{given_up:?}");
        }
        let both = futures_util::future::join(lookups.find("h", 1), lookups.find("h", 2));
        let mut both = std::pin::pin!(both);
        assert!(both.as_mut().now_or_never().is_none(), "both wait for it");
        answer.send(Ok(vec![([127, 0, 0, 1], 0).into()])).unwrap();
        let (first, second) = timeout(LIMIT, both).await.unwrap();
        assert_eq!(first, Ok(vec![([127, 0, 0, 1], 1).into()]));
        assert_eq!(second, Ok(vec![([127, 0, 0, 1], 2).into()]));
        assert_eq!(count.try_iter().collect::<Vec<_>>(), ["h"], "one thread");

        answer.send(Err(io::Error::other("no such host"))).unwrap();
        let asked_anew = timeout(LIMIT, lookups.find("h", 1)).await.unwrap();
        assert_eq!(asked_anew, Err("cannot resolve h: no such host".to_owned()));
        assert!(lookups.in_flight.lock().is_empty());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_and_an_address_is_not() {
        let found = timeout(LIMIT, Lookups::new().find("localhost", 7)).await.unwrap().unwrap();
        assert!(found.iter().any(|it| it.ip().is_loopback() && it.port() == 7), "{found:?}");
        let none = Lookups::with(|host| panic!("{host} was looked up"));
        assert_eq!(none.find("::1", 7).await, Ok(vec!["[::1]:7".parse().unwrap()]));
        assert!(none.find("h", 7).await.is_err());
        assert!(none.in_flight.lock().is_empty(), "a lookup that panics is over");
    }
}
