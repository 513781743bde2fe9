//! The connections to the members of a cluster. [`routing`] says which command goes to which member, and
//! [`found`] what a look at the cluster changes; [`late`] is about members that do not answer.

pub(super) mod found;
pub(super) mod late;
mod routing;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    history::{History, Process},
    slots::{SLOTS, slot_of},
    topology::MemberAddress,
};
use crate::{
    clock::Clock,
    error::{NodeError, NodeErrorKind},
    node::{
        Remaining, Watchers,
        backoff::Backoff,
        redis::{
            batch::Batch,
            exchange::{Exchange, Pushed},
        },
        strikes::Strikes,
    },
    sync::Mutex,
};

/// No member.
const NONE: u16 = u16::MAX;

/// A member of the cluster.
struct Member {
    place: MemberAddress,
    /// `None` while it cannot be reached.
    exchange: Option<Exchange>,
    process: Process,
    uptime: Option<Duration>,
    /// Why it cannot be reached.
    problem: Arc<str>,
    /// Connected since the last look.
    is_new: bool,
    connected: Instant,
    /// It has answered a command since then.
    has_answered: bool,
    /// Its last connection failed, or ended at once without an answer.
    is_useless: bool,
    /// Commands were to go to it since then.
    is_wanted: bool,
    /// How often it was late.
    strikes: Strikes,
}

impl Member {
    /// The slots of the commands that it has not answered.
    fn unanswered(&self) -> impl Iterator<Item = u16> {
        self.exchange.iter().flat_map(Exchange::unanswered).map(|it| slot_of(&it.claim.key))
    }

    /// Takes the connection, which has ended, away.
    fn has_ended(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.problem = exchange.disconnected().reason;
            self.is_useless = !self.has_answered && self.connected.elapsed() < Backoff::MAX;
        }
    }
}

/// A command on its way to a member. It may have to wait for a look at the cluster.
struct Routed {
    batch: Arc<Batch>,
    place: usize,
    slot: u16,
    /// The member that it was redirected to, if it was.
    to: Option<MemberAddress>,
    /// That member is still taking the slot over, and runs this command alone.
    asking: bool,
    /// How many members have redirected it.
    hops: u8,
}

/// The answers of the members that were asked whether they are alive.
pub(super) struct Pongs {
    pub(super) each: Vec<(MemberAddress, oneshot::Receiver<Result<(), NodeError>>)>,
    /// Until when they have to be there.
    pub(super) until: Option<Instant>,
}

/// What the listeners have yet to be told.
pub(super) struct News {
    watchers: Arc<Watchers>,
    pushed: Vec<Pushed>,
    /// The slots of which pushes may have been lost.
    unpushed: BTreeSet<u16>,
}

impl News {
    pub(super) fn tell(self) {
        let Self { watchers, pushed, unpushed } = self;
        pushed.into_iter().for_each(|it| it.tell(&watchers));
        if !unpushed.is_empty() {
            watchers.missed(|key| unpushed.contains(&slot_of(key)));
        }
    }
}

/// The members of a cluster, as one client is connected to them.
pub(super) struct Members {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    watchers: Arc<Watchers>,
    history: Arc<Mutex<History>>,
    /// How long a member may take to answer.
    limit: Duration,
    members: Vec<Member>,
    /// Which member has which slot.
    owners: Vec<u16>,
    parked: VecDeque<Routed>,
    /// The batches that were sent, and until when each has its answers.
    in_flight: VecDeque<(Instant, Arc<Batch>)>,
    /// Something has changed that a look would tell.
    wants_look: bool,
    driver: Option<Waker>,
    /// The slots of which pushes may have been lost: the connection to their member has ended, or they have another one,
    /// which does not know what the one before was to push.
    unpushed: BTreeSet<u16>,
    /// The runtime has begun to end.
    is_parting: bool,
}

impl Members {
    pub(super) fn new(
        name: &Arc<str>,
        clock: &Arc<dyn Clock>,
        watchers: &Arc<Watchers>,
        history: &Arc<Mutex<History>>,
        limit: Duration,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            clock: Arc::clone(clock),
            watchers: Arc::clone(watchers),
            history: Arc::clone(history),
            limit,
            members: Vec::new(),
            owners: vec![NONE; usize::from(SLOTS)],
            parked: VecDeque::new(),
            in_flight: VecDeque::new(),
            wants_look: false,
            driver: None,
            unpushed: BTreeSet::new(),
            is_parting: false,
        }
    }

    fn want_look(&mut self) {
        self.wants_look = true;
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Carries bytes and hands answers out. True when it is time for a look.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.driver.as_ref().is_none_or(|driver| !driver.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
        }
        let (mut redirected, mut ended) = (Vec::new(), Vec::new());
        for (index, member) in self.members.iter_mut().enumerate() {
            let Some(exchange) = &mut member.exchange else { continue };
            let has_ended = exchange.drive(cx).is_ready();
            if exchange.take_heard() {
                member.strikes.clear();
                member.has_answered = true;
            }
            // A member may redirect commands and hang up in one go.
            redirected.extend(exchange.take_redirected().into_iter().map(|it| (index, it)));
            if has_ended {
                member.has_ended();
                self.wants_look = true;
                ended.push(index);
            }
        }
        ended.into_iter().for_each(|index| self.note_unpushed(index));
        if !redirected.is_empty() {
            for (from, it) in redirected {
                self.redirect(from, it);
            }
            self.write();
        }
        self.expire();
        self.wants_look
    }

    /// Notes that pushes of this member, to which the connection has ended, may have been lost.
    fn note_unpushed(&mut self, index: usize) {
        let owned = (0..).zip(&self.owners).filter(|(_, owner)| usize::from(**owner) == index);
        self.unpushed.extend(owned.map(|(slot, _)| slot));
    }

    /// The members that a look has to reach although they may have no slots: those that commands wait for, or were to
    /// go to.
    pub(super) fn wanted(&self) -> BTreeSet<MemberAddress> {
        let targets = self.parked.iter().filter(|it| it.asking).filter_map(|it| it.to.as_ref());
        let missed = self.members.iter().filter(|it| it.is_wanted).map(|it| &it.place);
        targets.chain(missed).cloned().collect()
    }

    /// The members that can be asked about the others.
    pub(super) fn reached(&self) -> BTreeSet<MemberAddress> {
        let reached = self.members.iter().filter(|it| it.exchange.is_some());
        reached.map(|it| it.place.clone()).collect()
    }

    /// The members that are to be connected after a pause (rule 14).
    pub(super) fn useless(&self) -> BTreeSet<MemberAddress> {
        let useless = self.members.iter().filter(|it| it.is_useless);
        useless.map(|it| it.place.clone()).collect()
    }

    /// Whether all slots are served.
    pub(super) fn is_complete(&self) -> bool {
        self.owners.iter().all(|owner| {
            self.members.get(usize::from(*owner)).is_some_and(|it| it.exchange.is_some())
        })
    }

    /// Goes on without the runtime. Has the members answer nothing from here on, if they can be told that.
    pub(super) fn part(&mut self) {
        self.is_parting = true;
        self.in_flight.clear();
        self.members.iter_mut().filter_map(|it| it.exchange.as_mut()).for_each(Exchange::part);
    }

    /// After the parting: carries bytes. Returns what is left to do before the connections may close.
    pub(super) fn carry_last(&mut self) -> Remaining {
        // What wakes it has gone with the runtime.
        self.drive(&mut Context::from_waker(Waker::noop()));
        let open = self.members.iter_mut().filter_map(|it| it.exchange.as_mut());
        open.map(Exchange::remaining).max().unwrap_or(Remaining::Nothing)
    }

    fn write(&mut self) {
        self.members.iter_mut().filter_map(|it| it.exchange.as_mut()).for_each(Exchange::write);
    }

    /// Whether any member can be reached.
    pub(super) fn any_reached(&self) -> bool {
        self.members.iter().any(|it| it.exchange.is_some())
    }

    /// Why none can be.
    pub(super) fn problem(&self) -> String {
        let each = self.members.iter().map(|it| {
            let MemberAddress { host, port } = &it.place;
            format!("{host}:{port}: {}", it.problem)
        });
        format!("no master of the cluster can be reached: {}", each.collect::<Vec<_>>().join("; "))
    }

    /// Whether all members push changes of keys.
    pub(super) fn has_pushes(&self) -> bool {
        self.members.iter().filter_map(|it| it.exchange.as_ref()).all(Exchange::has_pushes)
    }

    /// Asks all members whether they are alive.
    pub(super) fn ping(&mut self) -> Result<Pongs, NodeError> {
        if !self.is_complete() {
            let down = self.members.iter().find(|it| it.exchange.is_none());
            let reason = down.map_or_else(
                || "some slots of the cluster have no master".to_owned(),
                |it| format!("{}:{} of the cluster: {}", it.place.host, it.place.port, it.problem),
            );
            return Err(NodeError::new(&self.name, NodeErrorKind::Down, reason));
        }
        let until = Instant::now().checked_add(self.limit);
        let each = self.members.iter_mut().filter_map(|Member { place, exchange, .. }| {
            exchange.as_mut().map(|it| (place.clone(), it.ping()))
        });
        Ok(Pongs { each: each.collect(), until })
    }

    /// What the listeners are to be told, with this unlocked.
    pub(super) fn take_news(&mut self) -> Option<News> {
        let mut pushed = Vec::new();
        for exchange in self.members.iter_mut().filter_map(|it| it.exchange.as_mut()) {
            pushed.extend(exchange.take_pushed().map(|(_, pushed)| pushed).unwrap_or_default());
        }
        let unpushed = std::mem::take(&mut self.unpushed);
        let has_news = !pushed.is_empty() || !unpushed.is_empty();
        has_news.then(|| News { watchers: Arc::clone(&self.watchers), pushed, unpushed })
    }

    /// Ends all connections.
    pub(super) fn end(&mut self, reason: &str) {
        for exchange in self.members.iter_mut().filter_map(|it| it.exchange.as_mut()) {
            exchange.close_reason().set(reason);
            exchange.end();
        }
        for Routed { batch, place, .. } in std::mem::take(&mut self.parked) {
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, reason);
            batch.answer(place, Err(error));
        }
    }
}
