//! Signals that this process gets and the command is meant to have.

use std::{
    fs::{self, File},
    io,
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
    /// Signals that are ignored stay ignored, by the command as well: `nohup` and shells that start a job in the
    /// background rely on it. Linux alone tells which ones they are.
    pub(crate) fn listen() -> io::Result<Self> {
        // Where the end of children is ignored, as by some parents of this process, the kernel forgets their
        // exit codes. A handler replaces that, and stays.
        drop(unix::signal(SignalKind::child())?);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let is_heard = |signal: &Signal| ignored & (1 << (signal.as_raw() - 1)) == 0;
        let listen =
            |signal: Signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        SIGNALS.into_iter().filter(is_heard).map(listen).collect::<io::Result<_>>().map(Self)
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

/// The signals that this process ignores, a bit for each, from `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Whether a terminal controls this process. It stops a process that reads from it outside of the group in its
/// foreground, and sends the signals of its keys to every process in that group.
pub(crate) fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
