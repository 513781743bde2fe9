//! One node of a simulated network.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use redlock_core::seam::simulation::{Command, Identity, Kind, Lost, Server};

use super::{
    sight::{Act, Witness},
    traffic::Message,
};

/// Which commands a node answers with an error, and does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuses {
    Nothing,
    /// It has no memory left. The scripts of other commands begin with a write that needs none.
    WhatTakesMemory,
    /// It cannot write to its disk.
    All,
}

impl Refuses {
    /// The error that a command is answered with.
    pub(super) fn reason(self, command: &Command) -> Option<&'static str> {
        let takes_memory = matches!(command.kind(), Kind::Grant | Kind::Heal | Kind::Join);
        match self {
            Self::All => Some("MISCONF this server is configured to save to its disk, and cannot"),
            Self::WhatTakesMemory if takes_memory => Some("OOM command not allowed"),
            Self::WhatTakesMemory | Self::Nothing => None,
        }
    }
}

/// A server process, and the data that may outlive it.
pub(super) struct SimNode {
    pub(super) name: Arc<str>,
    pub(super) server: Server,
    /// Locks that went and may come back.
    pub(super) lost: Vec<Lost>,
    pub(super) up: bool,
    pub(super) hung: bool,
    pub(super) refuses: Refuses,
    /// Counts its processes.
    pub(super) life: u64,
    /// When this process started; never for the first, which counts as old.
    started: Option<u64>,
    /// How long after its arrival each batch is run, and when the last of those that had to wait is. A batch
    /// that arrives at that very moment runs behind it.
    pub(super) delay: u64,
    pub(super) busy_until: Option<u64>,
    /// What arrived while it hung.
    pub(super) inbox: VecDeque<Message>,
}

impl SimNode {
    pub(super) fn new(number: usize, rate: f64) -> Self {
        Self {
            name: format!("n{number}").into(),
            server: Server::new(rate),
            lost: Vec::new(),
            up: true,
            hung: false,
            refuses: Refuses::Nothing,
            life: 0,
            started: None,
            delay: 0,
            busy_until: None,
            inbox: VecDeque::new(),
        }
    }

    pub(super) fn stop(&mut self) {
        self.up = false;
        self.hung = false;
        self.life += 1;
        self.inbox.clear();
    }

    pub(super) fn start(&mut self, now: u64, empty: bool) {
        if self.up {
            return;
        }
        self.up = true;
        self.started = Some(now);
        self.busy_until = None;
        if empty {
            // The connections to it are gone already.
            drop(self.server.clear());
        }
    }

    /// Has a witness see what an operator is about to see, or to take away.
    pub(super) fn show(&mut self, act: &Act<'_>, witness: &dyn Witness) {
        match act.kind {
            Kind::Inspect => {
                let left = self.server.remaining(act.key);
                // A key that expires within this nanosecond is free.
                let writer = left.and_then(|_| self.server.writer(act.key));
                witness.shown(act, writer, left);
            }
            Kind::TakeAway | Kind::Clear => {
                let holders = self.server.holders().into_iter();
                let of_key = holders.filter(|(key, _)| *key == act.key).map(|(_, claim)| claim);
                witness.taken(act, &of_key.collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    /// What a client is told when it connects (rule 16).
    pub(super) fn identity(&self, now: u64) -> Identity {
        let uptime = |started| Duration::from_millis(now.saturating_sub(started));
        Identity {
            run_id: format!("{}.{}", self.name, self.life),
            uptime: self.started.map_or(Duration::MAX, uptime),
        }
    }
}
