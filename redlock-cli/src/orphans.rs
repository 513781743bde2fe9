//! Processes that the command has started, and whose parents have ended. On Linux this process inherits them, as the
//! first process of a container does anyway. They stay in the table of processes until it has asked for their ends.

use std::{collections::HashMap, fs, time::Duration};

use rustix::io::Errno;
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
pub(crate) const END: Duration = Duration::from_secs(1);

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

    /// Stops them, and kills those that have not ended within `kill_after`. The command has ended. False if some are
    /// left, as those of another user.
    pub(crate) async fn stop(&self, kill_after: Duration) -> bool {
        // Some are inherited only when others have ended.
        let mut told = HashMap::new();
        let ended = async {
            loop {
                let left = self.reaped();
                let new: Vec<_> =
                    left.iter().filter(|it| !told.contains_key(*it)).copied().collect();
                for target in targets(&new) {
                    let may_stop = target.send(Signal::TERM);
                    target.send(Signal::CONT);
                    told.extend(target.children.iter().map(|it| (*it, may_stop)));
                }
                if !left.iter().any(|it| told.get(it) == Some(&true)) {
                    return;
                }
                sleep(PAUSE).await;
            }
        };
        if timeout(kill_after, ended).await.is_err() {
            self.kill().await;
        }
        self.left().is_empty()
    }

    /// Kills them until none is left: a process that ends leaves what it has started behind. Gives up on those that do
    /// not end in a moment, as those of another user.
    pub(crate) async fn kill(&self) {
        let killed = async {
            loop {
                let left = self.reaped();
                if left.is_empty() {
                    return;
                }
                for target in targets(&left) {
                    target.send(Signal::KILL);
                }
                sleep(PAUSE).await;
            }
        };
        let _ = timeout(END, killed).await;
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

/// What gets a signal at once.
struct Target {
    /// `None` for one process: this process may have a group together with it.
    group: Option<Pid>,
    children: Vec<Pid>,
}

impl Target {
    /// False if this user may not.
    fn send(&self, signal: Signal) -> bool {
        let refuses = |child: &&Pid| kill_process(**child, signal) == Err(Errno::PERM);
        match self.group {
            Some(group) => kill_process_group(group, signal) != Err(Errno::PERM),
            None => self.children.iter().filter(refuses).count() == 0,
        }
    }
}

/// Each group gets a signal once.
fn targets(children: &[Pid]) -> impl Iterator<Item = Target> {
    let group = |child| getpgid(Some(child)).ok().filter(|group| *group != getpgrp());
    let mut targets: HashMap<Option<Pid>, Vec<Pid>> = HashMap::new();
    for child in children {
        targets.entry(group(*child)).or_default().push(*child);
    }
    targets.into_iter().map(|(group, children)| Target { group, children })
}

/// The children of this thread.
fn children() -> impl Iterator<Item = Pid> {
    let list = fs::read_to_string(CHILDREN).unwrap_or_default();
    let ids: Vec<i32> = list.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    ids.into_iter().filter_map(Pid::from_raw)
}
