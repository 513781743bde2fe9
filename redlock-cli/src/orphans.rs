//! Processes that the command has started, and whose parents have ended. On Linux this process inherits them, as the
//! first process of a container does anyway. They stay in the table of processes until it has asked for their ends.

use std::{fs, time::Duration};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, getpgrp, kill_process, kill_process_group, waitpid,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// Between two looks whether processes have ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Has this process inherit what the command leaves behind, from here on. Linux alone can do that.
pub(crate) fn inherit() {
    #[cfg(target_os = "linux")]
    {
        // Where it is refused, the first process inherits them as before.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// Waits for all that this process inherits, but not for the `command`.
pub(crate) async fn reap(command: Option<Pid>) {
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

/// Kills all that this process inherits, with the groups in which they are, until none is left: a process that ends
/// leaves what it has started behind. The `command` has been waited for.
pub(crate) async fn kill(command: Option<Pid>) {
    let inherited = || children().filter(|it| Some(*it) != command).collect::<Vec<_>>();
    loop {
        let found = inherited();
        if found.is_empty() {
            return;
        }
        for child in found {
            // This process may have a group together with them.
            let _ = match getpgid(Some(child)) {
                Ok(group) if group != getpgrp() => kill_process_group(group, Signal::KILL),
                _ => kill_process(child, Signal::KILL),
            };
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        sleep(PAUSE).await;
    }
}

/// The children of this thread, which is the only one here that starts or inherits any. Linux alone lists them.
fn children() -> impl Iterator<Item = Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let ids: Vec<i32> = list.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    ids.into_iter().filter_map(Pid::from_raw)
}
