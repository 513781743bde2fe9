//! The connections to the members of a cluster, and which command goes to which.
//!
//! The commands of one lock go to one slot, in order. A command that another member has to run is sent
//! there at once when that member is known as a master: the slot has moved. Otherwise the command waits
//! for a look at the cluster, and the later commands of its slot wait behind it (rule 5).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    task::{Context, Waker},
};

use super::{
    history::{History, Process, Served},
    slots::{SLOTS, slot_of},
    topology::{Place, Shard},
};
use crate::{
    clock::Clock,
    error::{NodeError, NodeErrorKind},
    node::{
        Action, Command, Watchers,
        redis::{
            batch::Batch,
            calls::Redirected,
            exchange::{Exchange, Pushed},
        },
    },
    sync::Mutex,
};

/// No member.
const NONE: u16 = u16::MAX;

/// A member of the cluster.
struct Member {
    place: Place,
    /// `None` while it cannot be reached.
    exchange: Option<Exchange>,
    process: Process,
    uptime: Option<std::time::Duration>,
    /// Why it cannot be reached.
    problem: Arc<str>,
    /// Connected since the last look.
    is_new: bool,
}

/// A command that waits for a look at the cluster.
struct Parked {
    batch: Arc<Batch>,
    place: usize,
    slot: u16,
    /// The member that is taking the slot over, for this command alone.
    asking: Option<Place>,
}

/// A connection to a master, and the process at its other end.
pub(super) struct Reached {
    pub(super) exchange: Exchange,
    pub(super) run_id: Option<Arc<str>>,
    pub(super) uptime: Option<std::time::Duration>,
}

/// The findings of a look at the cluster.
pub(super) struct Found {
    pub(super) shards: Vec<Shard>,
    /// The members that were connected, or could not be.
    pub(super) opened: Vec<(Place, Result<Reached, Arc<str>>)>,
}

/// The members of a cluster, as one client is connected to them.
pub(super) struct Members {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    watchers: Arc<Watchers>,
    history: Arc<Mutex<History>>,
    members: Vec<Member>,
    /// Which member has which slot.
    owners: Vec<u16>,
    parked: VecDeque<Parked>,
    /// Something has changed that a look would tell.
    wants_look: bool,
    driver: Option<Waker>,
    /// A connection has ended, and pushes may have been lost with it.
    lost_pushes: bool,
}

impl Members {
    pub(super) fn new(
        name: &Arc<str>,
        clock: &Arc<dyn Clock>,
        watchers: &Arc<Watchers>,
        history: &Arc<Mutex<History>>,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            clock: Arc::clone(clock),
            watchers: Arc::clone(watchers),
            history: Arc::clone(history),
            members: Vec::new(),
            owners: vec![NONE; usize::from(SLOTS)],
            parked: VecDeque::new(),
            wants_look: false,
            driver: None,
            lost_pushes: false,
        }
    }

    /// Sends commands, each to the member that has its slot.
    pub(super) fn send(&mut self, commands: Vec<Command>) -> Arc<Batch> {
        let batch = Batch::new(commands);
        for (place, command) in batch.commands.iter().enumerate() {
            let slot = slot_of(&command.claim.key);
            self.route(&batch, place, slot, None);
        }
        self.write();
        batch
    }

    /// Gives one command to the member that has its slot, or to the one that is `asking` for it.
    fn route(&mut self, batch: &Arc<Batch>, place: usize, slot: u16, asking: Option<Place>) {
        let Some(command) = batch.commands.get(place) else { return };
        if self.parked.iter().any(|it| it.slot == slot) {
            return self.park(batch, place, slot, asking);
        }
        if let Some(refusal) = self.refuses(command.action, slot) {
            return batch.answer(place, Err(refusal));
        }
        let owner = self.owners.get(usize::from(slot)).copied().unwrap_or(NONE);
        let member = match &asking {
            Some(asking) => self.members.iter_mut().find(|it| it.place == *asking),
            None => self.members.get_mut(usize::from(owner)),
        };
        match member {
            Some(Member { exchange: Some(exchange), .. }) => {
                exchange.ask_one(batch, place, asking.is_some());
            }
            Some(Member { place: at, problem, .. }) => {
                let reason = format!("{}:{} of the cluster: {problem}", at.host, at.port);
                let error = NodeError::new(&self.name, NodeErrorKind::Down, reason);
                batch.answer(place, Err(error));
                self.want_look();
            }
            None => {
                let reason = format!("no member of the cluster has slot {slot}");
                let error = NodeError::new(&self.name, NodeErrorKind::Down, reason);
                batch.answer(place, Err(error));
                self.want_look();
            }
        }
    }

    /// Why no new lock is given in this slot (rule 16). It may have forgotten a key, which reads as
    /// free then, so it is not watched either.
    fn refuses(&self, action: Action, slot: u16) -> Option<NodeError> {
        let (Action::Grant { .. }
        | Action::GrantFenced { .. }
        | Action::Adopt { .. }
        | Action::Redraw { .. }
        | Action::Watch) = action
        else {
            return None;
        };
        let left = self.history.lock().sits_out(slot, self.clock.now())?;
        let reason = format!(
            "another process has taken slot {slot} of the cluster over and may have forgotten locks, \
             so it votes again in {left:.1?}"
        );
        Some(NodeError::new(&self.name, NodeErrorKind::SitsOut, reason))
    }

    fn park(&mut self, batch: &Arc<Batch>, place: usize, slot: u16, asking: Option<Place>) {
        self.parked.push_back(Parked { batch: Arc::clone(batch), place, slot, asking });
        self.want_look();
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
        for member in &mut self.members {
            let Some(exchange) = &mut member.exchange else { continue };
            if exchange.drive(cx).is_ready() {
                member.problem = exchange.disconnected().reason;
                member.exchange = None;
                self.wants_look = true;
                self.lost_pushes = true;
            }
        }
        let mut redirected = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let exchange = member.exchange.as_mut();
            let each = exchange.map(Exchange::take_redirected).unwrap_or_default();
            redirected.extend(each.into_iter().map(|it| (index, it)));
        }
        if !redirected.is_empty() {
            for (from, it) in redirected {
                self.redirect(from, it);
            }
            self.write();
        }
        self.wants_look
    }

    /// Follows `MOVED` and `ASK`, as the member with the index `from` has answered.
    fn redirect(&mut self, from: usize, redirected: Redirected) {
        let Redirected { batch, place, to } = redirected;
        let host = match &*to.host {
            "" => self.members.get(from).map(|it| it.place.host.clone()).unwrap_or_default(),
            host => host.to_owned(),
        };
        let target = Place { host, port: to.port };
        let known = self.members.iter().position(|it| it.place == target && it.exchange.is_some());
        if to.once {
            if known.is_none() {
                return self.park(&batch, place, to.slot, Some(target));
            }
            return self.route(&batch, place, to.slot, Some(target));
        }
        match known {
            // Both were masters before: the slot has moved, and its keys with it.
            Some(index) => {
                if let (Some(owner), Some(member)) =
                    (self.owners.get_mut(usize::from(to.slot)), self.members.get(index))
                {
                    *owner = u16::try_from(index).unwrap_or(NONE);
                    self.history.lock().moved(to.slot, &member.process);
                }
                self.route(&batch, place, to.slot, None);
            }
            None => self.park(&batch, place, to.slot, None),
        }
    }

    /// The members that a look has to reach: those that commands wait for.
    pub(super) fn wanted(&self) -> BTreeSet<Place> {
        self.parked.iter().filter_map(|it| it.asking.clone()).collect()
    }

    /// The members that can be asked about the others.
    pub(super) fn reached(&self) -> BTreeSet<Place> {
        let reached = self.members.iter().filter(|it| it.exchange.is_some());
        reached.map(|it| it.place.clone()).collect()
    }

    /// Whether all slots are served.
    pub(super) fn is_complete(&self) -> bool {
        self.owners.iter().all(|owner| {
            self.members.get(usize::from(*owner)).is_some_and(|it| it.exchange.is_some())
        })
    }

    /// Takes the findings of a look in, and sends the commands that waited for it. Returns how many
    /// slots sit out from now on because of it.
    pub(super) fn apply(&mut self, found: Found) -> usize {
        let Found { shards, opened } = found;
        let mut before = std::mem::take(&mut self.members);
        let wanted = self.wanted();
        for (place, reached) in opened {
            let name = |it: &&Shard| it.place == place;
            let id = shards.iter().find(name).map(|it| it.id.clone()).unwrap_or_default();
            let known = before.iter().position(|it| it.place == place);
            let member = match reached {
                Ok(Reached { exchange, run_id, uptime }) => Member {
                    place,
                    exchange: Some(exchange),
                    process: Process { id: id.into(), run_id },
                    uptime,
                    problem: "its connection has ended".into(),
                    is_new: true,
                },
                Err(problem) => Member {
                    place,
                    exchange: None,
                    process: Process { id: id.into(), run_id: None },
                    uptime: None,
                    problem,
                    is_new: false,
                },
            };
            match known.and_then(|index| before.get_mut(index)) {
                Some(known) if known.exchange.is_none() => *known = member,
                // It was connected meanwhile.
                Some(_) => {}
                None => before.push(member),
            }
        }
        // A member that has lost all its slots is asked no more. A member that is taking its first
        // slot over has none yet, and stays.
        for member in before {
            let has_slots = shards.iter().any(|it| it.place == member.place);
            if has_slots || wanted.contains(&member.place) && member.exchange.is_some() {
                self.members.push(member);
            } else if let Some(mut exchange) = member.exchange {
                exchange.close_reason().set("it is no master of the cluster any more");
                exchange.end();
            }
        }
        self.owners.fill(NONE);
        let mut served = Vec::new();
        for shard in &shards {
            let Some(index) = self.members.iter().position(|it| it.place == shard.place) else {
                continue;
            };
            let slots = usize::from(*shard.slots.start())..=usize::from(*shard.slots.end());
            if let Some(owners) = self.owners.get_mut(slots) {
                owners.fill(u16::try_from(index).unwrap_or(NONE));
            }
            let Some(member) = self.members.get_mut(index) else { continue };
            // A member that was connected for one command has no name until it has a slot.
            member.process.id = shard.id.as_str().into();
            if member.exchange.is_some() {
                served.push(Served {
                    slots: shard.slots.clone(),
                    process: member.process.clone(),
                    uptime: member.uptime,
                    is_new: member.is_new,
                });
            }
        }
        let barred = self.history.lock().look(&served, self.clock.now());
        self.members.iter_mut().for_each(|it| it.is_new = false);
        self.wants_look = false;
        for Parked { batch, place, slot, asking } in std::mem::take(&mut self.parked) {
            self.route(&batch, place, slot, asking);
        }
        self.write();
        barred
    }

    /// Commands that wait for a look that has failed fail as well.
    pub(super) fn look_failed(&mut self, why: &str) {
        self.wants_look = false;
        for Parked { batch, place, .. } in std::mem::take(&mut self.parked) {
            batch.answer(place, Err(NodeError::new(&self.name, NodeErrorKind::Down, why)));
        }
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
            let Place { host, port } = &it.place;
            format!("{host}:{port}: {}", it.problem)
        });
        format!("no master of the cluster can be reached: {}", each.collect::<Vec<_>>().join("; "))
    }

    /// Whether all members push changes of keys.
    pub(super) fn tells(&self) -> bool {
        self.members.iter().filter_map(|it| it.exchange.as_ref()).all(Exchange::tells)
    }

    /// Asks all members whether they are alive.
    pub(super) fn ping(
        &mut self,
    ) -> Result<Vec<tokio::sync::oneshot::Receiver<Result<(), NodeError>>>, NodeError> {
        if !self.is_complete() {
            let down = self.members.iter().find(|it| it.exchange.is_none());
            let reason = down.map_or_else(
                || "some slots of the cluster have no master".to_owned(),
                |it| format!("{}:{} of the cluster: {}", it.place.host, it.place.port, it.problem),
            );
            return Err(NodeError::new(&self.name, NodeErrorKind::Down, reason));
        }
        let exchanges = self.members.iter_mut().filter_map(|it| it.exchange.as_mut());
        Ok(exchanges.map(Exchange::ping).collect())
    }

    /// The pushes so far. The listeners are told with this unlocked.
    pub(super) fn take_pushed(&mut self) -> Option<(Arc<Watchers>, Vec<Pushed>)> {
        let mut all = Vec::new();
        if std::mem::take(&mut self.lost_pushes) {
            all.push(Pushed::All);
        }
        for exchange in self.members.iter_mut().filter_map(|it| it.exchange.as_mut()) {
            all.extend(exchange.take_pushed().map(|(_, pushed)| pushed).unwrap_or_default());
        }
        (!all.is_empty()).then(|| (Arc::clone(&self.watchers), all))
    }

    /// Ends all connections.
    pub(super) fn end(&mut self, reason: &str) {
        for exchange in self.members.iter_mut().filter_map(|it| it.exchange.as_mut()) {
            exchange.close_reason().set(reason);
            exchange.end();
        }
        for Parked { batch, place, .. } in std::mem::take(&mut self.parked) {
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, reason);
            batch.answer(place, Err(error));
        }
    }
}
