//! A cluster as one connection: the task that waits for its end carries the bytes of all members, and
//! looks at the cluster when something has changed, and once a second.

use std::{
    collections::BTreeSet, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::Instant;

use super::{
    look::Looker,
    members::{Members, Pongs},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{
        Command, Connection, Remaining, Reply, Sender,
        backoff::Backoff,
        redis::{connection::TAKEN_OVER, transport::RUNTIME_ENDED},
    },
    sync::Mutex,
    telemetry,
};

/// How often the cluster is looked at when nothing seems to have changed. A master that is cut off
/// from the others serves its clients for a while, and does not tell.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time between two looks when something has changed. Each command that has to wait for a look
/// asks for one.
const HURRIED: Duration = Duration::from_millis(100);

/// The connections to the members of a cluster.
pub(super) struct ClusterConnection {
    pub(super) looker: Arc<Looker>,
    pub(super) members: Arc<Mutex<Members>>,
}

impl Drop for ClusterConnection {
    fn drop(&mut self) {
        self.members.lock().end("this client closed the connection");
    }
}

impl Connection for ClusterConnection {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(ClusterSender(Arc::clone(&self.members)))
    }

    fn has_pushes(&self) -> bool {
        self.members.lock().has_pushes()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let asked = self.members.lock().ping();
        let (members, name) = (Arc::clone(&self.members), Arc::clone(&self.looker.name));
        async move {
            let Pongs { each, until } = asked?;
            let mut all = Ok(());
            for (place, pong) in each {
                let pong = match until {
                    Some(until) => tokio::time::timeout_at(until, pong).await,
                    None => Ok(pong.await),
                };
                let pong = match pong {
                    Ok(pong) => pong.unwrap_or_else(|_| {
                        Err(NodeError::new(&name, NodeErrorKind::Down, "a connection has ended"))
                    }),
                    Err(_) => Err(members.lock().is_silent(&place)),
                };
                all = all.and(pong);
            }
            all
        }
        .boxed()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let driver =
            Driver { looker: Arc::clone(&self.looker), members: Arc::clone(&self.members) };
        async move {
            let reason = driver.run().await;
            NodeError::new(&driver.looker.name, NodeErrorKind::Disconnected, reason)
        }
        .boxed()
    }
}

struct ClusterSender(Arc<Mutex<Members>>);

impl Sender for ClusterSender {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        let members = Arc::clone(&self.0);
        async move {
            let batch = members.lock().send(commands);
            poll_fn(|cx| {
                batch.register(cx.waker());
                batch.poll()
            })
            .await
        }
        .boxed()
    }

    fn send_last(&self, commands: Vec<Command>) {
        let mut members = self.0.lock();
        members.part();
        if !commands.is_empty() {
            members.send(commands);
        }
    }

    fn carry_last(&self) -> Remaining {
        self.0.lock().carry_last()
    }

    fn close(&self) {
        self.0.lock().end(TAKEN_OVER);
    }

    fn wakes_reader(&self) -> bool {
        // It has to set its alarm, too.
        false
    }
}

/// Carries the bytes. A runtime that ends drops this early, and the connections end with it.
struct Driver {
    looker: Arc<Looker>,
    members: Arc<Mutex<Members>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.members.lock().end(RUNTIME_ENDED);
    }
}

impl Driver {
    /// Returns why the connection is over.
    ///
    /// While slots are without a master, looks come less and less often, and so do attempts to connect to members
    /// that break their connections (rule 14). Both begin anew once a second has passed in which nothing was
    /// missing and nothing has changed.
    async fn run(&self) -> String {
        let mut looked = Instant::now();
        // When a look last tried all members, even those that had been of no use.
        let mut tried = looked;
        let mut backoff = Backoff::new();
        loop {
            let pause = self.looker.jittered(backoff.pause());
            let complete = self.members.lock().is_complete();
            let next = if complete { looked + LOOK_INTERVAL } else { tried + pause };
            let hurried = tokio::select! {
                biased;
                () = self.drive(true) => true,
                () = tokio::time::sleep_until(next) => false,
            };
            if hurried {
                // Answers that say that something has changed come in crowds.
                self.driving(tokio::time::sleep_until(looked + pause.min(HURRIED))).await;
            } else if complete {
                backoff = Backoff::new();
            }
            let tries_all = Instant::now() >= next;
            let (reached, wanted, useless) = {
                let members = self.members.lock();
                (members.reached(), members.wanted(), members.useless())
            };
            let spared = if tries_all { BTreeSet::new() } else { useless };
            let found = self.driving(self.looker.look(&reached, &wanted, &spared)).await;
            looked = Instant::now();
            if tries_all {
                tried = looked;
            }
            match found {
                Ok(found) => {
                    let barred = self.members.lock().apply(found);
                    if barred > 0 {
                        telemetry::slots_sit_out(&self.looker.name, barred, self.looker.span);
                    }
                }
                Err(why) => self.members.lock().look_failed(&why),
            }
            let members = self.members.lock();
            if !members.any_reached() {
                return members.problem();
            }
        }
    }

    /// The output of a future, with the bytes of the members carried meanwhile.
    async fn driving<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.drive(false) => std::future::pending().await,
            output = future => output,
        }
    }

    /// Carries bytes, until it is time for a look, or for ever.
    async fn drive(&self, until_look: bool) {
        // Left to ring when the batch that it was set for has been answered, as a session leaves its own.
        let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
        let mut is_set = false;
        poll_fn(|cx| {
            loop {
                let (look, news, deadline) = {
                    let mut members = self.members.lock();
                    (members.drive(cx), members.take_news(), members.deadline())
                };
                if let Some(news) = news {
                    news.tell();
                }
                if look && until_look {
                    return Poll::Ready(());
                }
                if let Some(deadline) = deadline.filter(|_| !is_set) {
                    alarm.as_mut().reset(deadline);
                    is_set = true;
                }
                if !is_set || alarm.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                is_set = false;
            }
        })
        .await;
    }
}
