//! Runs a command under a lock.

use std::{
    ffi::OsStr,
    future::{IntoFuture, pending},
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    pin::pin,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use redlock_core::{LockError, LockGuard, Redlock, Released};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group,
        waitpgid,
    },
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    args::Run,
    executable,
    exit::{self, Failure, INTERNAL, LOST, NOT_EXECUTABLE, NOT_FOUND},
    orphans::{self, Orphans},
    show,
    signals::{Signals, has_terminal},
};

/// How long the clean-up of a request that a signal has ended may take.
const CLEAN_UP: Duration = Duration::from_secs(1);

/// Takes the lock, runs the command, and releases the lock when the command has ended. `ttl` is that of the client.
pub(crate) async fn run(redlock: &Redlock, run: Run, ttl: Duration) -> Result<ExitCode, Failure> {
    let listening = |error| Failure::new(INTERNAL, format!("cannot listen for signals: {error}"));
    let mut signals = Signals::listen().map_err(listening)?;
    // The parser asks for a command.
    let program = run.command.first().map_or(OsStr::new(""), OsStr::new);
    let file = executable::find(program).map_err(|error| cannot_run(&run, &error))?;
    let mut request = redlock.lock(&run.resource);
    if let Some(min) = run.min_hold {
        request = request.min_hold(min);
    }
    if run.fenced {
        request = request.fenced();
    }
    let guard = tokio::select! {
        biased;
        signal = signals.next() => {
            redlock.shutdown(CLEAN_UP).await;
            return Ok(exit::by_signal(signal.as_raw()));
        }
        guard = request.into_future() => {
            guard.map_err(|error| Failure::from(error).with_held(run.held_exit_code))?
        }
    };
    orphans::inherit();
    let command = match Running::spawn(&run, &file, &guard) {
        Ok(command) => command,
        Err(error) => {
            let _ = guard.release().await;
            return Err(cannot_start(&run, &file, &error));
        }
    };
    tokio::spawn(orphans::reap(command.id));
    let ended = command.watch(&guard, &mut signals, &run).await;
    // A lock that was lost is not extended: the answer says why it was lost.
    let lost = match ended {
        Ok(Ended::Lost(_)) => guard.extend(ttl).await.err(),
        _ => None,
    };
    let released = guard.release().await;
    match ended.map_err(|error| Failure::new(INTERNAL, format!("lost the command: {error}")))? {
        Ended::Lost(how) => {
            let why = lost.map_or_else(|| "the lock was lost".to_owned(), |it| it.to_string());
            Err(Failure::new(LOST, format!("{why}: {how}")))
        }
        Ended::TooLong(how) => {
            tell_of(&released);
            let why = format!("was held for as long as max_hold allows: {how}");
            Err(Failure::new(LOST, format!("the lock on {:?} {why}", run.resource)))
        }
        Ended::ByItself(status) => {
            // The command has done its work: what the release finds does not change its result.
            tell_of(&released);
            Ok(exit::of(status))
        }
    }
}

/// Says what the release of a lock found, if that was not the lock.
fn tell_of(released: &Result<Released, LockError>) {
    match released {
        Ok(Released::Ours) => {}
        Ok(_) => show::tell("the lock was lost as the command ended"),
        Err(error) => show::tell(format_args!("the lock may stay for its ttl: {error}")),
    }
}

fn cannot_run(run: &Run, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let why = match code {
        NOT_FOUND => "no such command".to_owned(),
        _ => error.to_string(),
    };
    let program = run.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
    Failure::new(code, format!("cannot run {program}: {why}"))
}

/// The command is there, and does not start.
fn cannot_start(run: &Run, file: &Path, error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::NotFound || !file.exists() {
        return cannot_run(run, error);
    }
    let why = if executable::names_an_interpreter(file) {
        "the interpreter that its first line names is not there"
    } else {
        "the loader that it was built for is not there: it may be for another C library"
    };
    cannot_run(run, &io::Error::other(why))
}

/// How the command came to its end.
enum Ended {
    ByItself(ExitStatus),
    /// It was to stop, because the lock was lost. How it ended.
    Lost(&'static str),
    /// It was to stop, because it had run for as long as it may. How it ended.
    TooLong(&'static str),
}

const STOPPED: &str = "the command was stopped";

/// As under sudo, without being root.
const NOT_STOPPED: &str = "the command may not be stopped by this user, and has ended by itself";

/// The command, and what it has started.
struct Running {
    child: Child,
    id: Option<Pid>,
    /// The command leads a process group, which has all that it started. Without a terminal alone: a command in
    /// a group of its own could not read from the terminal.
    leads_group: bool,
    orphans: Orphans,
}

impl Running {
    /// `file`: where the command is.
    fn spawn(run: &Run, file: &Path, guard: &LockGuard) -> io::Result<Self> {
        let Some((program, arguments)) = run.command.split_first() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        match Self::start(Command::new(program).args(arguments), run, guard) {
            Err(error)
                if Errno::from_io_error(&error) == Some(Errno::NOEXEC)
                    && executable::may_be_a_script(file) =>
            {
                // Nothing has run yet. A script without `#!` is for the shell, to shells and to `execvp` alike.
                // Its name may begin like an option.
                Self::start(Command::new("/bin/sh").arg("--").arg(file).args(arguments), run, guard)
            }
            started => started,
        }
    }

    fn start(command: &mut Command, run: &Run, guard: &LockGuard) -> io::Result<Self> {
        command.env("REDLOCK_RESOURCE", &run.resource);
        // A token of a redlock around this one is not that of this lock.
        command.env_remove("REDLOCK_TOKEN");
        if let Some(token) = guard.fencing_token() {
            command.env("REDLOCK_TOKEN", token.to_string());
        }
        let leads_group = !has_terminal();
        if leads_group {
            command.process_group(0);
        }
        let mut orphans = Orphans::new();
        let child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        orphans.but(id);
        Ok(Self { child, id, leads_group, orphans })
    }

    /// Waits for the end of the command. Passes signals on, and stops the command when the lock is lost or the
    /// command has run for too long.
    async fn watch(
        mut self,
        guard: &LockGuard,
        signals: &mut Signals,
        run: &Run,
    ) -> io::Result<Ended> {
        let kill_after = run.kill_after;
        let mut lost = pin!(guard.lost());
        // Not a limit of the lock itself: that would end before the command has.
        let mut too_long = pin!(async {
            match run.max_hold {
                Some(max) => sleep(max).await,
                None => pending().await,
            }
        });
        let mut passed = Vec::new();
        loop {
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    let status = status?;
                    // A shell ends at once, and what it waited for may need a moment. A command that ends by
                    // itself may leave something behind on purpose.
                    if let Some(signal) = stopped_by(status, &passed) {
                        if is_for_the_command_alone(signal) {
                            // What it started goes on without a lock, unless it is stopped as well.
                            self.send(signal);
                        }
                        let goes_on = "it goes on, and the lock stays until it has ended";
                        self.see_off(goes_on, signals, kill_after).await?;
                    }
                    return Ok(Ended::ByItself(status));
                }
                () = &mut lost => {
                    let goes_on = "it goes on without the lock";
                    return Ok(Ended::Lost(self.stop(goes_on, signals, kill_after).await?));
                }
                () = &mut too_long => {
                    let goes_on = "it goes on, and the lock stays until it has ended";
                    return Ok(Ended::TooLong(self.stop(goes_on, signals, kill_after).await?));
                }
                signal = signals.next() => {
                    self.pass_on(signal);
                    if !passed.contains(&signal) {
                        passed.push(signal);
                    }
                }
            }
        }
    }

    /// Returns how it ended. What `goes_on` is said if it may not be stopped.
    async fn stop(
        &mut self,
        goes_on: &str,
        signals: &mut Signals,
        kill_after: Duration,
    ) -> io::Result<&'static str> {
        let may_stop = self.send(Signal::TERM);
        if !may_stop {
            show::tell(format_args!("the command may not be stopped by this user: {goes_on}"));
        }
        self.wake();
        let was_stopped = self.see_off(goes_on, signals, kill_after).await?;
        // What has left its group works under the lock as well. A service of another user is not waited for: it may go on
        // for ever.
        if !self.orphans.stop(kill_after).await {
            show::tell(
                "what the command has started elsewhere may not be stopped by this user, and goes on",
            );
        }
        Ok(if may_stop && was_stopped { STOPPED } else { NOT_STOPPED })
    }

    /// Waits until the command and all of its group have ended, and kills them if that takes too long. What `goes_on` is
    /// said of what belongs to another user. It is waited for, and the result is false.
    async fn see_off(
        &mut self,
        goes_on: &str,
        signals: &mut Signals,
        kill_after: Duration,
    ) -> io::Result<bool> {
        let mut end = pin!(sleep(kill_after));
        loop {
            tokio::select! {
                biased;
                gone = self.gone() => return gone.map(|()| true),
                () = &mut end => break,
                signal = signals.next() => self.pass_on(signal),
            }
        }
        self.send(Signal::KILL);
        loop {
            tokio::select! {
                biased;
                ended = self.child.wait() => break ended.map(drop)?,
                // One that may not be killed may still end when its user signals it.
                signal = signals.next() => self.pass_on(signal),
            }
        }
        // Its group needs a moment, too. What has left the group is inherited once its parents have ended.
        let gone = timeout(orphans::END, self.gone()).await;
        self.orphans.kill().await;
        if let Ok(gone) = gone {
            return gone.map(|()| true);
        }
        if self.send(Signal::KILL) {
            return Ok(true);
        }
        show::tell(format_args!(
            "what the command has started may not be stopped by this user: {goes_on}"
        ));
        loop {
            tokio::select! {
                biased;
                gone = self.gone() => return gone.map(|()| false),
                signal = signals.next() => self.pass_on(signal),
            }
        }
    }

    /// Waits until the command and all of its group have ended. Cancel safe.
    async fn gone(&mut self) -> io::Result<()> {
        self.child.wait().await?;
        while self.leads_group && self.id.is_some_and(has_processes) {
            sleep(orphans::PAUSE).await;
        }
        Ok(())
    }

    /// Gives the command a signal that this process got.
    fn pass_on(&self, signal: Signal) {
        if is_for_the_command_alone(signal) {
            self.send_alone(signal);
        } else if self.leads_group || !matches!(signal, Signal::INT | Signal::QUIT) {
            // Else the command has those of the terminal's keys from the terminal.
            self.send(signal);
            if signal == Signal::TERM {
                self.wake();
            }
        }
    }

    /// A command that stands still, as after SIGSTOP, gets no other signal before it goes on.
    fn wake(&self) {
        self.send(Signal::CONT);
    }

    /// Sends a signal to the command and all of its group. False if this user may not.
    fn send(&self, signal: Signal) -> bool {
        if self.leads_group {
            // It may have ended just now.
            self.id.is_none_or(|id| kill_process_group(id, signal) != Err(Errno::PERM))
        } else {
            self.send_alone(signal)
        }
    }

    fn send_alone(&self, signal: Signal) -> bool {
        // Another process may have the id of a command that was waited for.
        let running = self.id.filter(|_| self.child.id().is_some());
        running.is_none_or(|id| kill_process(id, signal) != Err(Errno::PERM))
    }
}

/// Whether a signal means what the command makes of it, as to read its settings again. What the command
/// started, such as its workers, would end by it.
fn is_for_the_command_alone(signal: Signal) -> bool {
    matches!(signal, Signal::HUP | Signal::USR1 | Signal::USR2)
}

/// By which of the signals that were passed on to it a command was stopped, if it was. One of its own signals
/// has stopped it only if that was its end.
fn stopped_by(status: ExitStatus, passed: &[Signal]) -> Option<Signal> {
    let stops =
        |it: &Signal| !is_for_the_command_alone(*it) || status.signal() == Some(it.as_raw());
    passed.iter().copied().find(stops)
}

/// Whether a group, whose leader has been waited for, has processes that have not ended.
fn has_processes(group: Pid) -> bool {
    // As the first process of a container, this one inherits what the command leaves behind. A process that has
    // ended stays in its group until it is reaped.
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    are_there(test_kill_process_group(group))
}

/// Whether a question after processes has found any. Those of another user, as under sudo, may not be signalled.
fn are_there(found: Result<(), Errno>) -> bool {
    found != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_another_user_are_there_although_they_may_not_be_signalled() {
        assert!(are_there(Ok(())) && are_there(Err(Errno::PERM)));
        assert!(!are_there(Err(Errno::SRCH)));
    }
}
