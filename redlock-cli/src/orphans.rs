//! Processes that the command has started, and whose parents have ended. On Linux this process inherits them, as the
//! first process of a container does anyway. They stay in the table of processes until it has asked for their ends.

use std::{fs, time::Duration};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, getpgrp, kill_process, kill_process_group, waitpid,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

/// Between two looks whether processes have ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Where Linux lists the children of this thread, which is the only one here that starts or inherits any.
const CHILDREN: &str = "/proc/thread-self/children";

/// How long processes that were killed may take to end.
const END: Duration = Duration::from_secs(1);

/// Has this process inherit what a command leaves behind, from here on. Linux alone can do that.
pub(crate) fn inherit() {
    // Where they are not listed, they would not be reaped here.
    #[cfg(target_os = "linux")]
    if fs::exists(CHILDREN).unwrap_or_default() {
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

/// What this process inherits from one command, with the groups in which it is.
pub(crate) struct Orphans {
    /// The children that this process had before, as after the `exec` of a shell, and the command.
    others: Vec<Pid>,
}

impl Orphans {
    /// Those of a command that is yet to be started.
    pub(crate) fn new() -> Self {
        Self { others: children().collect() }
    }

    /// Leaves the command out, once it was started.
    pub(crate) fn but(&mut self, command: Option<Pid>) {
        self.others.extend(command);
    }

    /// Stops them, and kills those that have not ended within `kill_after`. The command has ended.
    pub(crate) async fn stop(&self, kill_after: Duration) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
        let ended = async {
            while !self.reaped().is_empty() {
                sleep(PAUSE).await;
            }
        };
        if timeout(kill_after, ended).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills them until none is left: a process that ends leaves what it has started behind. Gives up on those that do
    /// not end in a moment, as those of another user.
    pub(crate) async fn kill(&self) {
        let killed = async {
            while !self.reaped().is_empty() {
                self.send(Signal::KILL);
                sleep(PAUSE).await;
            }
        };
        let _ = timeout(END, killed).await;
    }

    fn send(&self, signal: Signal) {
        for child in self.left() {
            // This process may have a group together with them.
            let _ = match getpgid(Some(child)) {
                Ok(group) if group != getpgrp() => kill_process_group(group, signal),
                _ => kill_process(child, signal),
            };
        }
    }

    /// Those that are left once those that have ended were waited for.
    fn reaped(&self) -> Vec<Pid> {
        for child in self.left() {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        self.left()
    }

    fn left(&self) -> Vec<Pid> {
        children().filter(|it| !self.others.contains(it)).collect()
    }
}

/// The children of this thread.
fn children() -> impl Iterator<Item = Pid> {
    let list = fs::read_to_string(CHILDREN).unwrap_or_default();
    let ids: Vec<i32> = list.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    ids.into_iter().filter_map(Pid::from_raw)
}
