//! Processes whose parents have ended. The first process of a container inherits them, and they stay in the table
//! of processes until it has asked for their ends.

use std::{fs, process};

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::signal::unix::{SignalKind, signal};

/// As the first process of a container, waits for all that it inherits, but not for the `command`.
pub(crate) async fn reap(command: Option<Pid>) {
    if process::id() != 1 {
        return;
    }
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    loop {
        for child in children().filter(|it| Some(*it) != command) {
            // It may run still, or another part of this program has waited for it.
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        if ended.recv().await.is_none() {
            return;
        }
    }
}

/// The children of this thread, which is the only one here that starts or inherits any. Linux alone lists them.
fn children() -> impl Iterator<Item = Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let ids: Vec<i32> = list.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    ids.into_iter().filter_map(Pid::from_raw)
}
