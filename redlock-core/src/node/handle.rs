//! A node as the rest of the crate sees it: hand a job in, ask how it is.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

#[cfg(test)]
use super::Watchers;
use super::{
    Context, EarlyReply, Job, Listener, NodeSpec, Remaining, ReplyTo, fingerprint::fnv1a,
    outbox::Link, shared::Shared, supervisor,
};
use crate::{background::Pulse, clock::Moment, error::NodeError};

/// One node of a client. Shared by the clients of [`pools::quorum_of`](crate::pools::quorum_of).
#[derive(Clone)]
pub(crate) struct NodeHandle {
    owner: Arc<Owner>,
}

/// Ends the background task when the last client has gone and no delete is owed any more. If the node stays away, the
/// task ends once every key of these clients must have expired there.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        // No key outlives this: it is `max_ttl` with its drift.
        let until = self.0.context.clock.now() + self.0.context.sits_out;
        self.0.outbox.lock().ends_at = Some(until);
        self.0.gauges.leave();
        self.0.notify();
    }
}

impl NodeHandle {
    pub(crate) fn new(spec: NodeSpec, context: Context) -> Self {
        Self { owner: Arc::new(Owner(Arc::new(Shared::new(spec, context)))) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.owner.0
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.shared().name
    }

    /// Notes that a client of this node has had a quorum (rule 16).
    pub(crate) fn note_quorum_seen(&self) {
        self.shared().quorum_seen.store(true, Ordering::Release);
    }

    /// The process that it has last reached, by its fingerprint. 0 if that is unknown.
    pub(crate) fn process(&self) -> u64 {
        self.shared().process()
    }

    /// Since when it has reached that process. The origin if it is the process of the first contact, and gave no reason
    /// for suspicion.
    pub(crate) fn process_since(&self) -> Moment {
        Moment::from_nanos(self.shared().process_since.load(Ordering::Acquire))
    }

    /// Whether both have last reached the same process.
    pub(crate) fn is_twin_of(&self, other: &Self) -> bool {
        self.process() != 0 && self.process() == other.process()
    }

    /// Makes sure that a task connects and sends.
    pub(crate) fn ensure_running(&self) {
        let shared = self.shared();
        shared.task.ensure(|pulse| serve(shared, pulse), || self.when_ended());
    }

    /// Takes over a task that stands still on another runtime. Returns whether it did.
    pub(crate) fn take_over(&self, now: Moment) -> bool {
        let shared = self.shared();
        let task = |pulse| {
            // A request that comes next must not take the old connection for the new one.
            supervisor::begin(shared, &pulse);
            serve(shared, pulse)
        };
        shared.task.take_over(now, task, || self.when_ended())
    }

    /// When a task on another runtime, which has let the time of an answer pass, may be taken over.
    pub(crate) fn late_at(&self, now: Moment) -> Option<Moment> {
        let shared = self.shared();
        shared.task.late_at(now, shared.context.node_timeout)
    }

    fn when_ended(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::clone(self.shared());
        move || shared.fail_waiting()
    }

    /// Whether its task is on another runtime than the caller, or ended with one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let task = &self.shared().task;
        !task.is_running() || task.elsewhere().is_some()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.shared().task.is_running()
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared().context.clock.now()
    }

    /// Hands a job in at `now`. Returns the answers that are known at once.
    ///
    /// A job for an idle node is on its way when this returns, even if the caller's runtime ends.
    pub(crate) fn submit(&self, job: Arc<Job>, reply_to: ReplyTo, now: Moment) -> Vec<EarlyReply> {
        let shared = self.shared();
        let mut outbox = shared.outbox.lock();
        let (first, quiet) = (outbox.lanes.nothing_waits(), outbox.lanes.is_quiet());
        let (may_gather, had_ready) = (outbox.lanes.may_gather(), outbox.lanes.has_ready());
        let renews = job.action.renews();
        let mut early = outbox.put(&shared.name, job, reply_to, now);
        // If a job could leave before this one came, the supervisor was woken for it, and may be gathering jobs.
        let is_ready = !had_ready && outbox.lanes.has_ready();
        let presses = first || is_ready || may_gather && !outbox.lanes.may_gather();
        drop(outbox);
        if !early.is_empty() && first {
            // It was answered without being sent.
            return early;
        }
        if !shared.task.is_running() {
            early.extend(shared.send_last(now));
            if renews {
                // The scheduler of the hold starts the task again. A task that is started here, on a runtime that shuts
                // down, would answer what waits as it ends: under the lock of the hold.
                return early;
            }
            if shared.task.elsewhere().is_some() {
                // The task has ended since the caller checked it. It is started again only from another
                // runtime. On its own, a new task would end at once and hold up the deletes that the old one
                // sends at its end (rule 12).
                self.ensure_running();
            }
            if !shared.task.is_running() {
                shared.carry_last(Remaining::Answers);
            }
            return early;
        }
        if quiet {
            // The answer, or its absence, wakes the supervisor. This is noted first, because the
            // answer may be there at once.
            shared.task.expect(now + shared.context.node_timeout);
        }
        if presses && !(quiet && self.send_now(now)) {
            shared.task.expect(now);
            shared.notify();
        }
        early
    }

    /// Sends the waiting jobs from here. False when the supervisor has to do it.
    fn send_now(&self, now: Moment) -> bool {
        let shared = self.shared();
        let Some(mut pipe) = shared.pipe.try_lock() else { return false };
        if pipe.is_crowded(&&now) {
            return false;
        }
        let sent = pipe.send_waiting(&shared.outbox, &&now);
        sent.largest > 0 && !sent.tell_supervisor
    }

    /// Why this node gives no vote for a new lock at `now`, as far as is known without asking it.
    pub(crate) fn why_no_vote(&self, now: Moment) -> Option<NodeError> {
        if self.surely_gives_votes() {
            return None;
        }
        let shared = self.shared();
        shared.outbox.lock().why_no_vote(&shared.name, now)
    }

    /// Whether the node surely gives votes. False says nothing: it stays false after a node has sat out, until the next
    /// connection.
    pub(crate) fn surely_gives_votes(&self) -> bool {
        self.is_up() && !self.shared().is_suspect.load(Ordering::Acquire)
    }

    /// Why it is out of reach, if it is.
    pub(crate) fn why_down(&self) -> Option<NodeError> {
        match &self.shared().outbox.lock().link {
            Link::Down(error) => Some(error.clone()),
            Link::Opening | Link::Up => None,
        }
    }

    /// How long this node takes to answer; zero before its first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        self.shared().round_trip.get()
    }

    /// Has no command leave until this is called with `false`: the node looks full. Returns the actions that wait.
    #[cfg(test)]
    pub(crate) fn fill(&self, is_full: bool) -> Vec<super::Action> {
        let waiting = self.shared().outbox.lock().lanes.fill(is_full);
        self.shared().notify();
        waiting
    }

    /// Whether it pushes changes of keys to this client.
    pub(crate) fn has_pushes(&self) -> bool {
        self.shared().has_pushes.load(Ordering::Acquire) && self.is_up()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.shared().is_up.load(Ordering::Acquire)
    }

    /// Whether it refuses for now the keys whose queue has a name with this hash, for example because it has no memory
    /// left.
    pub(crate) fn refuses(&self, queue_hash: u64) -> bool {
        self.shared().refusals.has(queue_hash, || self.now())
    }

    /// A number that all clients have for this server: from its run id, or from its address where
    /// it tells none.
    pub(crate) fn fingerprint(&self) -> u64 {
        match self.process() {
            0 => fnv1a(self.name().as_bytes()),
            process => process,
        }
    }

    /// Registers a listener for a key.
    pub(crate) fn listen(&self, key: &Arc<str>, node: usize, listener: Arc<dyn Listener>) {
        self.shared().watchers.add(key, node, listener);
    }

    pub(crate) fn stop_listening<L: Listener>(&self, key: &str, listener: &Arc<L>) {
        self.shared().watchers.remove(key, listener);
    }

    #[cfg(test)]
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.shared().watchers
    }

    /// Waits until the first connection is made or has failed. True when it is made. False also where no task can
    /// run.
    pub(crate) async fn connects(&self) -> bool {
        let mut relinked = self.shared().relinked.subscribe();
        loop {
            match self.shared().outbox.lock().link {
                Link::Up => return true,
                Link::Down(_) => return false,
                Link::Opening => {}
            }
            // It may have ended since the caller made sure that it runs.
            self.ensure_running();
            if !self.is_running() {
                // A runtime that was shut down ends a task as it begins.
                return false;
            }
            // The sender is in `self`, so that waiting for it cannot fail.
            if relinked.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Whether all jobs have been seen through, or cannot be because the node is down.
    pub(crate) fn is_drained(&self) -> bool {
        let outbox = self.shared().outbox.lock();
        matches!(outbox.link, Link::Down(_)) || outbox.is_idle()
    }
}

/// A task that serves the node. The task before it ends.
fn serve(shared: &Arc<Shared>, pulse: Pulse) -> impl Future<Output = ()> + Send + use<> {
    let mail = shared.renew_mail(&pulse);
    supervisor::supervise(Arc::clone(shared), mail, pulse)
}

impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeHandle").field(self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use crate::{LockError, MemoryNode, Redlock, Restarts};

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_last_client_leaves_no_key_on_a_node_that_reconnects() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).restarts(Restarts::Trusted);
        let guard = redlock.build().unwrap().lock("r").await.unwrap();
        node.stop();
        drop(guard);
        sleep(TEN_SECONDS).await;
        node.start();
        sleep(TEN_SECONDS / 5).await;
        assert!(node.keys().is_empty(), "{:?}", node.keys());
    }

    #[tokio::test(start_paused = true)]
    async fn health_says_that_a_connection_broke_while_it_was_asked() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        node.slow(Duration::from_millis(10));
        let (health, ()) = tokio::join!(redlock.health(), async {
            sleep(Duration::from_millis(1)).await;
            node.stop();
        });
        let told = format!("{:?}", health[0].state);
        assert!(told.contains("Disconnected") && !health[0].is_up(), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_does_not_hide_jobs_that_wait_for_a_connection() {
        let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
        let other = Redlock::builder().nodes(&nodes[..1]).build().unwrap();
        let _theirs = other.lock("r").await.unwrap();
        nodes[2].hang();
        let redlock =
            Redlock::builder().nodes(&nodes).connect_timeout(TEN_SECONDS).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        sleep(TEN_SECONDS / 10).await;
        let asking = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.health().await }
        });
        sleep(TEN_SECONDS / 10).await;
        let error = redlock.try_lock("r").await.unwrap_err();
        let LockError::Held { nodes, .. } = &error else { panic!("{error}") };
        assert_eq!(&*nodes[0].reason, "still connecting");
        asking.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_hangs_is_found_out_by_pings_alone() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        node.hang();
        for _ in 0..3 {
            assert!(!redlock.health().await[0].is_up());
        }
        let asked = Instant::now();
        assert!(!redlock.health().await[0].is_up());
        assert_eq!(asked.elapsed(), Duration::ZERO, "it was asked once more");
    }

    #[tokio::test(start_paused = true)]
    async fn no_duration_is_too_long() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).connect_timeout(Duration::MAX);
        let redlock = redlock.wait(Duration::MAX).retry_jitter(Duration::MAX).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        drop(redlock.lock("r").max_hold(Duration::MAX).await.unwrap());
        node.slow(Duration::MAX);
        assert!(!redlock.health().await[0].is_up());
        redlock.shutdown(Duration::MAX).await;
    }
}
