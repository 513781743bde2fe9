//! Signals that this process gets and the command is meant to have.

use std::{
    io::{self, IsTerminal},
    task::Poll,
};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is passed on.
const SIGNALS: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals that this process gets from now on, instead of ending by them.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let listen =
            |signal: Signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        SIGNALS.into_iter().map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, received) in &mut self.0 {
                if let Poll::Ready(Some(())) = received.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Whether the command gets this signal by itself: a terminal sends those of its keys to every process
/// that runs in its foreground.
pub(crate) fn reaches_all(signal: Signal) -> bool {
    (signal == Signal::INT || signal == Signal::QUIT) && io::stdin().is_terminal()
}
