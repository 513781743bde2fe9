//! Letting go: compare-and-delete wherever the key may be, until it is confirmed or has expired
//! (rules 5, 11 and 12).

use std::{collections::VecDeque, sync::Arc, vec};

use crate::{
    bug::{Bug, planted},
    client::{Client, check_runtime},
    clock::Moment,
    error::{LockError, LostReason},
    guard::Released,
    lease::{End, Hold, Judgement, Lease},
    node::{Action, CleanUp, Job, Reply},
    quorum::{Round, Tally, ask, cast_all, quorum},
};

/// How many deletes of a mass release may be under way at once: what a node answers at once, and as
/// many again that are there when it has.
const MAX_UNDER_WAY: usize = 1024;

/// A quorum has answered, or so many failed that none will.
fn settles(tally: &Tally) -> bool {
    tally.answered() || tally.impossible_by_failures()
}

/// Lets go and waits for a quorum to confirm.
pub(crate) async fn release(hold: &Arc<Hold>) -> Result<Released, LockError> {
    let started = hold.client.clock.now();
    let Sent { round, asked, judged } = match let_go(hold, settles) {
        LetGo::Sent(sent) => sent,
        LetGo::PassedOn => return Ok(Released::Ours),
        LetGo::Before => return Ok(Released::AlreadyLost),
    };
    let tally = round.settled(&hold.client.nodes, hold.client.patience()).await;
    let nodes = hold.client.nodes.len();
    if !tally.answered() {
        check_runtime()?;
        return Err(LockError::NoQuorum {
            resource: hold.resource.clone(),
            attempts: 1,
            waited: hold.client.clock.now().since(started),
            granted: tally.yes(),
            quorum: quorum(nodes),
            nodes: round.failures(),
        });
    }
    // Nodes that were not asked have nothing of ours and count among the refusals.
    let not_ours = tally.no().saturating_sub(nodes - asked);
    let was_ours = match judged {
        Judgement::Valid(_) => asked.saturating_sub(not_ours) >= quorum(nodes),
        // What a quorum still had, nobody else can have had meanwhile.
        Judgement::Doubtful => tally.yes() >= quorum(nodes),
        Judgement::Ended(_) => false,
    };
    Ok(if was_ours { Released::Ours } else { Released::AlreadyLost })
}

/// Lets go without waiting: the nodes' own tasks see it through.
pub(crate) fn in_background(hold: &Arc<Hold>) {
    hold.client.ensure_running();
    let _ = let_go(hold, settles);
}

/// What letting go comes to.
enum LetGo {
    /// The nodes are being asked to delete the key.
    Sent(Sent),
    /// The next in line has the lease.
    PassedOn,
    /// It was let go of before.
    Before,
}

struct Sent {
    round: Arc<Round>,
    asked: usize,
    judged: Judgement,
}

/// Ends the hold, and passes its lease on or asks every node that may have the key to delete it,
/// once. The round over the deletes is over when `settles` says so.
fn let_go(hold: &Arc<Hold>, settles: fn(&Tally) -> bool) -> LetGo {
    let judged = hold.judge();
    if !planted(Bug::OldHandleStaysValid) {
        hold.end(End::Released);
    }
    let reading = hold.client.clock.read();
    let now = reading.now;
    let confirmed = {
        let mut state = hold.state.lock();
        if !state.begin_release() {
            return LetGo::Before;
        }
        if planted(Bug::HandOverUnconfirmed) {
            // As if the last one had been confirmed.
            (state.lease.deadline, state.lease.confirmed.now) =
                (state.lease.expired_by, state.lease.renewal_sent);
        }
        state.lease.renewal_sent <= state.lease.confirmed.now
    };
    let Hold { client, id, .. } = &**hold;
    let gone = || {
        if !planted(Bug::RenewalOutlivesRelease) {
            client.registry.remove(*id);
        }
    };
    // What is in doubt, what waits for an answer and what a `min_hold` keeps is not passed on.
    let passable = matches!(judged, Judgement::Valid(_)) && confirmed && hold.earliest <= now;
    if passable && client.lines.hand_over(hold, reading) {
        gone();
        return LetGo::PassedOn;
    }
    if planted(Bug::OldHandleStaysValid) {
        hold.end(End::Released);
    }
    let lease = hold.state.lock().lease.clone();
    // A `min_hold` that is not used up keeps the key for the rest, whatever ended the hold.
    let keep_until = Some(hold.earliest).filter(|earliest| *earliest > now);
    let (round, asked) = delete(client, &lease, keep_until, settles);
    // Only now: a shutdown that does not see it any more finds the deletes with the nodes.
    gone();
    // And whoever is next asks behind them.
    client.lines.vacate(client, &lease.claim.key, *id);
    LetGo::Sent(Sent { round, asked, judged })
}

/// Gives back a lease that nobody holds, or what an attempt for one has left: behind its SETs, and
/// not on the caller's time (rule 5).
pub(crate) fn give_back(client: &Client, lease: &Lease) {
    client.ensure_running();
    delete(client, lease, None, settles);
}

/// Asks every node that may have the key to delete it; how many there were.
fn delete(
    client: &Client,
    lease: &Lease,
    keep_until: Option<Moment>,
    settles: fn(&Tally) -> bool,
) -> (Arc<Round>, usize) {
    let round = Round::new(client.nodes.len(), settles);
    let clean_up =
        CleanUp { since: lease.since, until: lease.expired_by, keep_until, repeated: false };
    let job = Job { clean_up: Some(clean_up), ..Job::new(&lease.claim, Action::Release) };
    let job = |node: usize| lease.set_round.may_have_happened(node).then(|| job.clone());
    let uncast = ask(&client.nodes, &round, job);
    let skipped = uncast.iter().filter(|(_, result)| matches!(result, Ok(Reply::Missing))).count();
    cast_all(uncast);
    (round, client.nodes.len() - skipped)
}

/// What neither a failed extension nor a shutdown may do: [`Bug::ExtendDeletesOnFailure`],
/// [`Bug::ShutdownReleasesFirst`].
pub(crate) fn delete_everywhere(hold: &Hold) {
    let round = Round::new(hold.client.nodes.len(), settles);
    let claim = Arc::clone(&hold.state.lock().lease.claim);
    let job = Job::new(&claim, Action::Release);
    cast_all(ask(&hold.client.nodes, &round, |_| Some(job.clone())));
}

/// Tells every hold of the client that it is over. Those of bodies let go by themselves; what comes
/// back are the others, whose holders have not let go.
pub(crate) fn end_all(client: &Client) -> EndedGuards {
    let mut ended = client.registry.all();
    for hold in &ended {
        hold.end(End::Lost(LostReason::Shutdown));
    }
    ended.retain(|hold| !hold.is_body());
    EndedGuards { rest: ended.into_iter(), under_way: VecDeque::new() }
}

/// Bare guards whose holds were ended, and whose keys are to be deleted as well. Dropped, the rest is
/// deleted all at once.
#[must_use = "their keys go at once when this is dropped"]
pub(crate) struct EndedGuards {
    rest: vec::IntoIter<Arc<Hold>>,
    under_way: VecDeque<Arc<Round>>,
}

impl EndedGuards {
    /// Deletes their keys, [`MAX_UNDER_WAY`] at once: more than a node can take would wait there
    /// until it is too late to be sent. The slowest node that answers sets the pace.
    pub(crate) async fn release(mut self, client: &Client) {
        for hold in self.rest.by_ref() {
            if let LetGo::Sent(Sent { round, .. }) = let_go(&hold, Tally::is_complete) {
                self.under_way.push_back(round);
            }
            if self.under_way.len() >= MAX_UNDER_WAY
                && let Some(first) = self.under_way.pop_front()
            {
                first.settled(&client.nodes, client.patience()).await;
            }
        }
    }

    /// Leaves the keys: they go when the guards are dropped, or with their ttl.
    pub(crate) fn keep(mut self) {
        self.rest = Vec::new().into_iter();
    }
}

impl Drop for EndedGuards {
    fn drop(&mut self) {
        for hold in self.rest.by_ref() {
            let _ = let_go(&hold, settles);
        }
    }
}
