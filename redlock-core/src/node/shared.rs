//! The state that the users of a node share with the task that serves it. The delete of a guard that is
//! dropped is put here, from any thread, and the task sends it (rule 12).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    Connector, EarlyReply, Identity, NodeSpec, Remaining, ReplyTo, Restarts, Watchers,
    fingerprint::fnv1a,
    outbox::{Link, Outbox},
    pipe::Pipe,
    quarantine::{Quarantine, Suspicion},
    refusals::Refusals,
    round_trip::RoundTrip,
};
use crate::{
    background::{Background, Pulse},
    clock::{Clock, Moment},
    metrics::NodeGauges,
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    token::Entropy,
};

/// How long the end of a runtime waits for the last answers of a node, beside two round trips. A later delete waits for
/// as long until it is written.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Between two looks for them.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// What a client shares with its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) restarts: Restarts,
    /// How long a node that may have forgotten locks gives no votes.
    pub(crate) sits_out: Duration,
}

/// The parts that connect, send and clean up for one node. Its background task and its users share
/// them.
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) context: Context,
    /// Locked after the pipe where both are needed.
    pub(super) outbox: Mutex<Outbox>,
    pub(super) pipe: Mutex<Pipe>,
    /// Tells the task that something was put into the outbox, or sent by its caller. Each task has
    /// its own: a task that was taken over must not get a signal for the next task.
    mail: Mutex<Arc<Notify>>,
    pub(super) round_trip: RoundTrip,
    pub(super) refusals: Refusals,
    /// Whether the link in the outbox is up, for reading without the lock.
    /// [`relink`](Self::relink) alone sets both.
    pub(super) is_up: AtomicBool,
    /// It had to sit out when it was last connected. Not cleared when that time is over.
    pub(super) is_suspect: AtomicBool,
    /// Whether the node pushes changes of keys over the present connection.
    pub(super) has_pushes: AtomicBool,
    pub(super) watchers: Arc<Watchers>,
    /// The link in the outbox has changed.
    pub(super) relinked: watch::Sender<()>,
    /// A client of this node has had a quorum.
    pub(super) quorum_seen: AtomicBool,
    /// The fingerprint of the process that answered last; zero when it has told no name.
    process: AtomicU64,
    /// The moment at which it first answered here, in nanoseconds. Zero if it is the process of the first contact, and
    /// gave no reason for suspicion.
    pub(super) process_since: AtomicU64,
    /// What an operator should change about the server that answered last.
    pub(super) advice: Mutex<Vec<Arc<str>>>,
    pub(super) task: Background,
    pub(super) gauges: NodeGauges,
}

impl Shared {
    pub(super) fn new(spec: NodeSpec, context: Context) -> Self {
        let span = context.sits_out.saturating_add(spec.connector.overlap());
        let quarantine = Quarantine::new(context.restarts, span);
        let gauges = NodeGauges::new(&spec.name);
        Self {
            name: spec.name,
            connector: spec.connector,
            context,
            outbox: Mutex::new(Outbox::new(quarantine)),
            pipe: Mutex::default(),
            round_trip: RoundTrip::default(),
            refusals: Refusals::default(),
            is_up: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
            has_pushes: AtomicBool::new(false),
            mail: Mutex::default(),
            watchers: Arc::default(),
            relinked: watch::Sender::new(()),
            quorum_seen: AtomicBool::new(false),
            process: AtomicU64::new(0),
            process_since: AtomicU64::new(0),
            advice: Mutex::default(),
            task: Background::default(),
            gauges,
        }
    }

    /// Changes the link. [`announce`](Self::announce) reports the change once nothing is locked.
    pub(super) fn relink(&self, outbox: &mut Outbox, link: Link) {
        self.is_up.store(matches!(link, Link::Up), Ordering::Release);
        outbox.link = link;
    }

    /// Tells the tasks that wait for the link how it is. A waker runs code of its executor, and may
    /// poll its task at once.
    pub(super) fn announce(&self) {
        self.relinked.send_replace(());
        self.gauges.link(|| {
            let outbox = self.outbox.lock();
            let is_up = matches!(outbox.link, Link::Up);
            // A task that has ended has found nothing wrong with the node, and without a client only deletes are left.
            let counts = (is_up || self.task.is_running()) && outbox.ends_at.is_none();
            counts.then_some(is_up)
        });
        self.gauges.sits_out(|| {
            let outbox = self.outbox.lock();
            let sits_out = outbox.quarantine.sits_out(self.context.clock.now());
            sits_out.filter(|_| outbox.ends_at.is_none()).map(|(_, left)| left)
        });
        self.show_cleanups();
    }

    /// Shows how many deletes are not confirmed.
    pub(super) fn show_cleanups(&self) {
        self.gauges.cleanups(|| self.outbox.lock().cleanups());
    }

    /// Remembers which process answers, at `now`.
    pub(super) fn recognise(&self, identity: &Identity, suspicion: Option<Suspicion>, now: Moment) {
        let fingerprint = identity.run_id.as_ref().map_or(0, |run_id| fnv1a(run_id.as_bytes()));
        let before = self.process.load(Ordering::Acquire);
        // First: a process that is new here must not seem to be the process of the first contact.
        if before != fingerprint && (before != 0 || suspicion.is_some()) {
            self.process_since.store(now.as_nanos(), Ordering::Release);
        }
        self.process.store(fingerprint, Ordering::Release);
    }

    /// The fingerprint of the process that answered last; zero if it is unknown.
    pub(super) fn process(&self) -> u64 {
        match self.process.load(Ordering::Acquire) {
            0 => 0,
            process => self.connector.fingerprint().unwrap_or(process),
        }
    }

    /// Tells the task that there is something to do.
    pub(super) fn notify(&self) {
        let mail = Arc::clone(&self.mail.lock());
        mail.notify_one();
    }

    /// The signal that tells a new task that there is something to do. The previous task ends when
    /// it is told.
    pub(super) fn renew_mail(&self, pulse: &Pulse) -> Arc<Notify> {
        let mail = Arc::<Notify>::default();
        let before = {
            let mut present = self.mail.lock();
            if !pulse.is_current() {
                // It was taken over already, and nothing tells it.
                return mail;
            }
            std::mem::replace(&mut *present, Arc::clone(&mail))
        };
        before.notify_one();
        mail
    }

    /// Sends the deletes that wait, when the task has ended with its runtime. Nothing runs after the end of `main`
    /// that could send them (rule 12). Returns their answers, which no task will hear.
    #[must_use]
    pub(super) fn send_last(&self, now: Moment) -> Vec<EarlyReply> {
        let sent = {
            let pipe = self.pipe.lock();
            let mut outbox = self.outbox.lock();
            pipe.send_last(&mut outbox, now)
        };
        sent.into_iter().filter_map(|item| item.reply_to).map(ReplyTo::unheard).collect()
    }

    /// Carries bytes over the connection of a task that was dropped with its runtime, until no more than `rest` is left
    /// to do. No runtime does it any more. A node that lets the time for that pass is not waited for again.
    pub(super) fn carry_last(&self, rest: Remaining) {
        let limit = LAST_BYTES + 2 * self.round_trip.get();
        let parting = self.pipe.lock().parting(rest, limit);
        let Some((parting, until)) = parting else { return };
        while parting.carry_last() > rest {
            if Instant::now() >= until {
                return self.pipe.lock().give_up(&parting);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Fails the jobs that must not be sent late, because the background task has ended. Clean-up
    /// waits for the next task (rule 13).
    pub(super) fn fail_waiting(&self) {
        let now = self.context.clock.now();
        let over = {
            let pipe = self.pipe.lock();
            let mut outbox = self.outbox.lock();
            if self.task.is_running() {
                return;
            }
            // Sends the deletes that came after the task had sent its last ones. This is one step with the rest: a
            // delete that came in between would only be owed, and no task would send it.
            let sent = pipe.send_last(&mut outbox, now);
            self.relink(&mut outbox, Link::Opening);
            let abandoned = outbox.disconnect(now);
            for item in &abandoned {
                outbox.owe(Arc::clone(&item.job), now);
            }
            (sent, abandoned, std::mem::take(&mut outbox.pings))
        };
        self.announce();
        // Each `ReplyTo` answers as it is dropped, with no lock held.
        drop(over);
        // A waiter on a living runtime starts the task again there.
        self.watchers.disconnected();
        self.carry_last(Remaining::Nothing);
    }
}
