//! What is on its way between clients and nodes.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use redlock_core::{
    NodeError,
    seam::simulation::{Answers, Command, Identity, Pushes},
};
use tokio::sync::oneshot;

use super::{super::rng::Rng, connection::End};

/// How messages fare between one client and one node. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkQuality {
    /// What each message takes at least.
    pub base: u64,
    /// The most that is added at random.
    pub jitter: u64,
    /// How many messages in 1000 take longer.
    pub spikes: u64,
    /// How much longer at most.
    pub spike: u64,
    /// After how many batches in 1000 the connection breaks.
    pub losses: u64,
    /// How many pushes in 1000 the node never sends.
    pub lost_pushes: u64,
}

impl LinkQuality {
    /// No message takes any time, and none is lost.
    pub(crate) const FAIR: Self =
        Self { base: 0, jitter: 0, spikes: 0, spike: 0, losses: 0, lost_pushes: 0 };

    pub(super) fn delay(&self, rng: &mut Rng) -> u64 {
        let mut delay = self.base;
        if self.jitter > 0 {
            delay += rng.below(self.jitter + 1);
        }
        if self.spikes > 0 && rng.below(1000) < self.spikes {
            delay += rng.below(self.spike + 1);
        }
        delay
    }
}

/// The way between one client and one node.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) quality: LinkQuality,
    /// Nothing gets to the node, or to the client: held, as TCP sends it again later.
    pub(super) cut_to_node: bool,
    pub(super) cut_to_client: bool,
    pub(super) held: VecDeque<Message>,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            quality: LinkQuality::FAIR,
            cut_to_node: false,
            cut_to_client: false,
            held: VecDeque::new(),
        }
    }
}

/// Where a message belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) connection: u64,
    /// The life of the node that the connection leads to.
    pub(super) life: u64,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) route: Route,
    pub(super) payload: Payload,
}

#[derive(Debug)]
pub(super) enum Payload {
    /// To the node: a connection is wanted.
    Open(Opening),
    /// To the node: commands.
    Call { call: u64, commands: Vec<Command> },
    /// At the node: commands that it runs now.
    Run { call: u64, commands: Vec<Command> },
    /// To the client: the connection is there, or refused.
    Opened(Opening, Result<Identity, NodeError>),
    /// To the client: what the node replied.
    Answer { call: u64, replies: Answers },
    /// To the client: a key that it watches has changed.
    Push { key: Arc<str> },
    /// To the client: the node knows nothing of this connection.
    Hangup,
}

impl Payload {
    pub(super) fn goes_to_node(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Call { .. })
    }

    pub(super) fn goes_to_client(&self) -> bool {
        matches!(self, Self::Opened(..) | Self::Answer { .. } | Self::Push { .. } | Self::Hangup)
    }
}

/// A client that waits for a connection.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) tell: oneshot::Sender<Result<Connected, NodeError>>,
    pub(super) pushes: Pushes,
}

/// The number of a connection, its client's end of it, and the identity of the node at the other
/// end.
pub(super) type Connected = (u64, Arc<End>, Identity);

/// A message and when it arrives; the number keeps what arrives together in order.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) number: u64,
    pub(super) message: Message,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The earliest is the greatest, because the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
