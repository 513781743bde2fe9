//! Which server process is behind a connection, and whether it may give votes (rule 16).
//!
//! A node that restarted without its data has forgotten the locks it granted, and would grant them
//! again. No client can see whether it kept its data. So it sits out until every lease that it may
//! have forgotten has run out. Pure: no connection, no clock.

use std::{sync::Arc, time::Duration};

use crate::clock::Moment;

/// Whether a node that has restarted may vote on new locks at once.
///
/// A node that may not vote sits out. It gives no votes for `max_ttl` plus the drift allowance, counted from when this
/// client first saw its new process. Behind sentinels, that takes a second and one and a half times `connect_timeout`
/// more, and in a cluster a second and four thirds of it. The node is not asked for new locks, and counts as failed.
/// [`Redlock::health`](crate::Redlock::health) returns the remaining time.
///
/// Locks that this client holds are still renewed there. If the node has lost them, they are set again, as long as a
/// majority of the nodes still has them. If a majority, or the only node, loses them before the next renewal, they are
/// lost ([`LostReason::Refused`](crate::LostReason::Refused)).
///
/// A user that may not run `INFO` sees no run id. To such a client, every reconnect looks like a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Restarts {
    /// The client judges by what it has seen. A node sits out if its process has changed, if it was
    /// a replica for a while, or if it was down at first while this client already had a quorum
    /// of others. The default.
    #[default]
    Observed,
    /// Like `Observed`, and a node also sits out if it had been up for less than `max_ttl` plus the drift allowance
    /// when this client first saw it. So it does not matter when this client was started. In a new deployment,
    /// requests fail with `NoQuorum` until the nodes have sat out once, unless their `wait` is longer.
    ///
    /// A server counts as young if its uptime cannot be read: without the permission to run `INFO`, every new client
    /// gets no lock for that time.
    Strict,
    /// Any node may vote at once. Use it only if no node loses a write that it has answered: with `appendonly yes` and
    /// `appendfsync always`, or as a service that promises it. Otherwise a restart can give a lock twice.
    Trusted,
}

/// The identity that a server tells when a connection to it is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Names one process: the name changes with each restart. None when the server does not tell:
    /// then no reconnect can be told from a restart.
    pub(crate) run_id: Option<Arc<str>>,
    /// The replication id of the master that it followed before it became a master itself. It forgets that after
    /// an hour without replicas.
    pub(crate) followed: Option<Arc<str>>,
    pub(crate) uptime: Option<Duration>,
    /// The eviction policy, when it may drop locks.
    pub(crate) evicts: Option<Arc<str>>,
    /// A member of a cluster does not tell its run id.
    pub(crate) is_nameless: bool,
}

/// Why a node sits out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Another process than before answers.
    Restarted,
    /// It was down when this client already had a quorum.
    WasDown,
    /// It has not been up for long enough.
    Young,
    /// It was a replica for a while, and has another server's data.
    WasReplica,
}

impl Suspicion {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Restarted => "it restarted",
            Self::WasDown => "it was down before this client first reached it",
            Self::Young => "it has not been up for long",
            Self::WasReplica => "it was a replica",
        }
    }
}

/// The process that answered last.
#[derive(Debug)]
enum LastProcess {
    NoProcess,
    /// The process does not tell its run id: the next process that answers may be another process.
    Nameless,
    Process {
        run_id: Arc<str>,
        followed: Option<Arc<str>>,
    },
}

impl LastProcess {
    fn of(identity: &Identity) -> Self {
        match &identity.run_id {
            None => Self::Nameless,
            Some(run_id) => {
                Self::Process { run_id: Arc::clone(run_id), followed: identity.followed.clone() }
            }
        }
    }
}

/// The known state of the process behind one node.
#[derive(Debug)]
pub(super) struct Quarantine {
    restarts: Restarts,
    /// How long a node sits out.
    span: Duration,
    seen: LastProcess,
    was_down: bool,
    was_replica: bool,
    sits_out: Option<(Suspicion, Moment)>,
}

impl Quarantine {
    pub(super) fn new(restarts: Restarts, span: Duration) -> Self {
        Self {
            restarts,
            span,
            seen: LastProcess::NoProcess,
            was_down: false,
            was_replica: false,
            sits_out: None,
        }
    }

    /// Notes that the node could not be reached.
    pub(super) fn went_down(&mut self) {
        self.was_down = true;
    }

    /// Notes that the node has said that it is a replica: its process stays the same when it
    /// becomes a master again, and its data do not.
    pub(super) fn was_replica(&mut self) {
        self.was_replica = true;
    }

    /// A connection is open, at `now`, to this process. `quorum_seen` says whether a client of this
    /// node has had a quorum before. Returns why the node has to sit out from now on, if it has to.
    pub(super) fn admit(
        &mut self,
        identity: &Identity,
        quorum_seen: bool,
        now: Moment,
    ) -> Option<Suspicion> {
        let was_replica = std::mem::take(&mut self.was_replica);
        let suspicion = match &self.seen {
            _ if was_replica => Some(Suspicion::WasReplica),
            LastProcess::Process { run_id, followed }
                if identity.run_id.as_ref() == Some(run_id) =>
            {
                was_promoted(followed.as_ref(), identity.followed.as_ref())
                    .then_some(Suspicion::WasReplica)
            }
            LastProcess::Process { .. } | LastProcess::Nameless => Some(Suspicion::Restarted),
            LastProcess::NoProcess if self.was_down && quorum_seen => Some(Suspicion::WasDown),
            LastProcess::NoProcess => (self.restarts == Restarts::Strict
                && identity.uptime.is_none_or(|uptime| uptime < self.span))
            .then_some(Suspicion::Young),
        };
        self.seen = LastProcess::of(identity);
        let suspicion = suspicion.filter(|_| self.restarts != Restarts::Trusted)?;
        // Measured by this client's own clock: the node's uptime jumps with its wall clock.
        self.sits_out = Some((suspicion, now + self.span));
        Some(suspicion)
    }

    /// Why the node gives no votes at `now`, and how much longer.
    pub(super) fn sits_out(&self, now: Moment) -> Option<(Suspicion, Duration)> {
        let (suspicion, until) = self.sits_out?;
        let left = until.since(now);
        (!left.is_zero()).then_some((suspicion, left))
    }
}

/// Whether a process was made a replica and a master again, by a client or by sentinels, since it told which master it
/// `followed`.
pub(crate) fn was_promoted(followed: Option<&Arc<str>>, now: Option<&Arc<str>>) -> bool {
    now.is_some() && now != followed
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN + Duration::from_secs(seconds)
    }

    fn process(run_id: &str, uptime: u64) -> Identity {
        Identity {
            run_id: Some(run_id.into()),
            followed: None,
            uptime: Some(Duration::from_secs(uptime)),
            evicts: None,
            is_nameless: false,
        }
    }

    #[test]
    fn a_changed_process_sits_out_from_its_first_sight() {
        let mut node = Quarantine::new(Restarts::Observed, SPAN);
        assert_eq!(node.admit(&process("a", 5), true, at(0)), None);
        assert_eq!(node.sits_out(at(0)), None);
        node.went_down();
        assert_eq!(node.admit(&process("b", 9999), true, at(10)), Some(Suspicion::Restarted));
        assert_eq!(node.sits_out(at(20)), Some((Suspicion::Restarted, Duration::from_secs(50))));
        node.went_down();
        assert_eq!(node.admit(&process("b", 9999), true, at(30)), None, "the same process still");
        assert_eq!(node.sits_out(at(69)), Some((Suspicion::Restarted, Duration::from_secs(1))));
        assert_eq!(node.sits_out(at(70)), None);
    }

    /// It has another server's data, and its run id from before.
    #[test]
    fn a_process_that_was_a_replica_unseen_sits_out() {
        let promoted = |followed: Option<&str>| Identity {
            followed: followed.map(Into::into),
            ..process("a", 9999)
        };
        let mut node = Quarantine::new(Restarts::Observed, SPAN);
        for (followed, now, suspicion) in [
            (None, 0, None),
            (Some("x"), 100, Some(Suspicion::WasReplica)),
            (Some("x"), 200, None),
            (Some("y"), 300, Some(Suspicion::WasReplica)),
            // After an hour it has forgotten, and is the same.
            (None, 4000, None),
            (Some("z"), 4100, Some(Suspicion::WasReplica)),
        ] {
            node.went_down();
            assert_eq!(node.admit(&promoted(followed), now > 0, at(now)), suspicion, "{now}");
        }
    }

    #[test]
    fn a_process_that_was_a_replica_sits_out_once() {
        let mut node = Quarantine::new(Restarts::Observed, SPAN);
        node.was_replica();
        assert_eq!(node.admit(&process("a", 5), false, at(0)), Some(Suspicion::WasReplica));
        assert_eq!(node.admit(&process("a", 5), true, at(100)), None);
        node.was_replica();
        assert_eq!(node.admit(&process("a", 5), true, at(200)), Some(Suspicion::WasReplica));
    }

    #[test]
    fn a_process_that_comes_back_sits_out_again() {
        let mut node = Quarantine::new(Restarts::Observed, SPAN);
        node.admit(&process("a", 0), true, at(0));
        node.admit(&process("b", 0), true, at(100));
        assert_eq!(node.admit(&process("a", 0), true, at(200)), Some(Suspicion::Restarted));
    }

    #[test]
    fn a_node_that_was_down_while_others_were_a_quorum_sits_out() {
        for (was_down, quorum_seen) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let mut node = Quarantine::new(Restarts::Observed, SPAN);
            if was_down {
                node.went_down();
            }
            let suspicion = node.admit(&process("a", 5), quorum_seen, at(1));
            assert_eq!(suspicion, (was_down && quorum_seen).then_some(Suspicion::WasDown));
        }
    }

    #[test]
    fn strict_asks_for_the_uptime_and_trusted_for_nothing() {
        let admit = |restarts, identity: &Identity| {
            Quarantine::new(restarts, SPAN).admit(identity, false, at(0))
        };
        assert_eq!(admit(Restarts::Strict, &process("a", 59)), Some(Suspicion::Young));
        assert_eq!(admit(Restarts::Strict, &process("a", 60)), None);
        assert_eq!(admit(Restarts::Strict, &Identity::default()), Some(Suspicion::Young));
        assert_eq!(admit(Restarts::Observed, &process("a", 0)), None);

        let mut trusted = Quarantine::new(Restarts::Trusted, SPAN);
        trusted.went_down();
        for run_id in ["a", "b"] {
            assert_eq!(trusted.admit(&process(run_id, 0), true, at(0)), None);
            assert_eq!(trusted.sits_out(at(0)), None);
        }
    }

    #[test]
    fn where_no_process_has_a_name_every_reconnect_may_be_a_restart() {
        let mut node = Quarantine::new(Restarts::Observed, SPAN);
        assert_eq!(node.admit(&Identity::default(), true, at(0)), None);
        assert_eq!(node.admit(&Identity::default(), true, at(1)), Some(Suspicion::Restarted));
        assert_eq!(node.admit(&process("a", 0), true, at(2)), Some(Suspicion::Restarted));
    }
}
