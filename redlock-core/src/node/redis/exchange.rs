//! The exchange over one connection: commands out, in order, and one answer each.
//!
//! No caller waits for a command to be written. The commands of one call go out at once, in one
//! write. Bytes that the socket does not take go out before any later command.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use redis::{PushKind, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot::{self, error::TryRecvError},
};

use super::{
    abilities::Abilities,
    acknowledged::Wait,
    batch::Batch,
    calls::Calls,
    command, frame,
    transport::{CloseReason, NOT_REDIS, Transport},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Command, Remaining, Watchers},
};

/// Room for answers to begin with: those of a full batch are a few bytes each.
const ROOM: usize = 4096;

/// What an [`Exchange`] begins with.
pub(super) struct Setup {
    /// What errors call the server.
    pub(super) node: Arc<str>,
    pub(super) transport: Transport,
    pub(super) close_reason: CloseReason,
    /// The listeners to changes of keys, if the server tells of them.
    pub(super) watchers: Option<Arc<Watchers>>,
    /// The server can be told to answer nothing.
    pub(super) mutes: bool,
    pub(super) abilities: Abilities,
    /// How many replicas have to acknowledge a vote, if any.
    pub(super) wait: Option<Wait>,
    /// The server is a member of a cluster that is used as one node.
    pub(super) is_member: bool,
}

/// One connection that is ready for commands.
pub(super) struct Exchange {
    node: Arc<str>,
    /// `None` once it has ended.
    transport: Option<Transport>,
    close_reason: CloseReason,
    /// The bytes to write; the first `written` are written.
    out: Vec<u8>,
    written: usize,
    /// The transport has not passed all of them on.
    unflushed: bool,
    /// The bytes that were read; the first `filled` are valid.
    heard: Vec<u8>,
    filled: usize,
    calls: Calls,
    is_member: bool,
    /// The task that reads.
    driver: Option<Waker>,
    watchers: Option<Arc<Watchers>>,
    /// Pushes that the listeners are told once nothing is locked.
    pushed: Vec<Pushed>,
    /// The server can be told to answer nothing.
    mutes: bool,
    /// Set when the runtime of the task that reads has begun to end.
    parting: Option<Parting>,
}

/// A connection that goes on without its runtime.
struct Parting {
    /// Its socket can do that.
    goes_on: bool,
    /// Comes behind the last answer of a server that was told to answer nothing more.
    last_pong: Option<oneshot::Receiver<Result<(), NodeError>>>,
}

/// The pushes of a server.
pub(super) enum Pushed {
    /// This key has changed.
    Key(String),
    /// Any key may have changed: `FLUSHALL`.
    All,
}

impl Pushed {
    /// Tells the listeners, with nothing locked.
    pub(super) fn tell(self, watchers: &Watchers) {
        match self {
            Self::Key(key) => watchers.changed(&key),
            Self::All => watchers.missed(|_| true),
        }
    }
}

impl Exchange {
    pub(super) fn new(setup: Setup) -> Self {
        let Setup { node, transport, close_reason, watchers, mutes, abilities, wait, is_member } =
            setup;
        let tracks = watchers.is_some();
        Self {
            calls: Calls::new(Arc::clone(&node), abilities, tracks, wait, is_member),
            is_member,
            node,
            transport: Some(transport),
            close_reason,
            out: Vec::new(),
            written: 0,
            unflushed: false,
            heard: vec![0; ROOM],
            filled: 0,
            driver: None,
            watchers,
            pushed: Vec::new(),
            mutes,
            parting: None,
        }
    }

    /// Whether the server pushes changes of keys.
    pub(super) fn has_pushes(&self) -> bool {
        self.watchers.is_some()
    }

    pub(super) fn close_reason(&self) -> CloseReason {
        self.close_reason.clone()
    }

    /// Queues commands and writes as much as possible.
    pub(super) fn ask(&mut self, commands: Vec<Command>) -> Arc<Batch> {
        let batch = Batch::new(commands);
        self.calls.ask(&batch, &mut self.out);
        self.write();
        batch
    }

    /// Goes on without the runtime of the task that reads. Has the server answer nothing from here on, if it can be told
    /// that.
    ///
    /// A socket that is closed with bytes to read resets the connection. A server whose answer meets the reset drops
    /// what it has not read yet, the last deletes among it (rule 12). So the answers to earlier commands have to be
    /// read before it closes.
    pub(super) fn part(&mut self) {
        if self.parting.is_some() {
            return;
        }
        let goes_on = self.transport.as_mut().is_some_and(Transport::leave_runtime);
        self.calls.wait_no_more();
        // Pushes come from a server that answers nothing, too.
        self.calls.track_no_more(&mut self.out);
        let mut last_pong = None;
        if self.mutes {
            last_pong = (!self.calls.is_answered()).then(|| self.calls.ping(&mut self.out));
            command::mute(&mut self.out);
        }
        self.parting = Some(Parting { goes_on, last_pong });
        self.write();
    }

    /// After the [parting](Self::part): what is left to do before the connection may close.
    pub(super) fn remaining(&mut self) -> Remaining {
        let Some(Parting { goes_on: true, last_pong }) = &mut self.parting else {
            return Remaining::Nothing;
        };
        let is_answered = if self.mutes {
            let is_awaited =
                |pong: &mut oneshot::Receiver<_>| pong.try_recv() == Err(TryRecvError::Empty);
            !last_pong.as_mut().is_some_and(is_awaited)
        } else {
            self.calls.is_answered()
        };
        match () {
            () if self.transport.is_none() => Remaining::Nothing,
            () if self.unflushed || !self.out.is_empty() => Remaining::Commands,
            () if is_answered => Remaining::Nothing,
            () => Remaining::Answers,
        }
    }

    /// Queues one command of a batch. Another member of the cluster may be `asking` for it, and so many have
    /// redirected it.
    #[cfg(feature = "cluster")]
    pub(super) fn ask_one(&mut self, batch: &Arc<Batch>, place: usize, asking: bool, hops: u8) {
        self.calls.ask_one(batch, place, asking, hops, &mut self.out);
    }

    /// Asks whether the server is alive.
    pub(super) fn ping(&mut self) -> oneshot::Receiver<Result<(), NodeError>> {
        let told = self.calls.ping(&mut self.out);
        self.write();
        told
    }

    /// Carries bytes and hands answers out; ready when it has ended.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_driven_by(cx.waker()) {
            self.driver = Some(cx.waker().clone());
        }
        loop {
            self.write();
            match self.read(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.end();
                    return Poll::Ready(());
                }
            }
            if self.hand_out().is_err() {
                self.close_reason.set(NOT_REDIS);
                self.end();
                return Poll::Ready(());
            }
        }
    }

    /// Whether this waker wakes the task that reads.
    pub(super) fn is_driven_by(&self, waker: &Waker) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.will_wake(waker))
    }

    /// Closes the connection: commands without an answer fail.
    pub(super) fn end(&mut self) {
        self.transport = None;
        self.out = Vec::new();
        self.written = 0;
        let error = self.disconnected();
        self.calls.end(&error);
    }

    /// Why it has ended. The end of the connection to one member is not that of the node, and a
    /// command may have run there.
    pub(super) fn disconnected(&self) -> NodeError {
        let reason = self.close_reason.reason();
        let error = NodeError::new(&self.node, NodeErrorKind::Disconnected, reason);
        if self.is_member { NodeError { kind: NodeErrorKind::Down, ..error } } else { error }
    }

    /// Writes as much as the socket takes. The driver is woken when the socket takes more, and
    /// learns of errors.
    pub(super) fn write(&mut self) {
        let Some(transport) = &mut self.transport else { return self.end() };
        let mut cx = Context::from_waker(self.driver.as_ref().unwrap_or(Waker::noop()));
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut *transport).poll_write(&mut cx, rest) {
                Poll::Ready(Ok(written)) if written > 0 => self.written += written,
                Poll::Ready(_) => {
                    // A reason from the socket itself comes first.
                    self.close_reason.set("the socket takes no more bytes");
                    return self.end();
                }
                Poll::Pending => return,
            }
        }
        self.out.clear();
        self.written = 0;
        let flushed = Pin::new(transport).poll_flush(&mut cx);
        self.unflushed = flushed.is_pending();
        if let Poll::Ready(Err(_)) = flushed {
            self.end();
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(transport) = &mut self.transport else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if self.filled == self.heard.len() {
            self.heard.resize(2 * self.filled, 0);
        }
        let mut room = ReadBuf::new(&mut self.heard[self.filled..]);
        std::task::ready!(Pin::new(transport).poll_read(cx, &mut room))?;
        match room.filled().len() {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            read => {
                self.filled += read;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Hands every complete answer to its receiver.
    fn hand_out(&mut self) -> Result<(), frame::NotRedis> {
        let mut at = 0;
        while let Some(length) = frame::length(&self.heard[at..self.filled])? {
            let value = frame::read(&self.heard[at..at + length])?;
            at += length;
            match value {
                Value::Push { kind: PushKind::Invalidate, data } => self.note_pushed(&data),
                // No reply belongs to a push: this client subscribes to nothing.
                Value::Push { .. } => {}
                answer => self.calls.answer(answer, &mut self.out)?,
            }
        }
        self.heard.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    /// Notes that keys have changed which the server was asked to track.
    fn note_pushed(&mut self, keys: &[Value]) {
        if self.watchers.is_none() {
            return;
        }
        match keys.first() {
            Some(Value::Array(keys)) => {
                let keys = keys.iter().filter_map(|key| redis::from_redis_value_ref(key).ok());
                self.pushed.extend(keys.map(Pushed::Key));
            }
            _ => self.pushed.push(Pushed::All),
        }
    }

    /// The pushes so far, and the listeners to tell. A listener wakes tasks, which may send
    /// commands at once, so the caller tells it with this unlocked.
    pub(super) fn take_pushed(&mut self) -> Option<(Arc<Watchers>, Vec<Pushed>)> {
        if self.pushed.is_empty() {
            return None;
        }
        Some((Arc::clone(self.watchers.as_ref()?), std::mem::take(&mut self.pushed)))
    }

    /// Whether the member of the cluster has answered in time since this was last asked.
    #[cfg(feature = "cluster")]
    pub(super) fn take_heard(&mut self) -> bool {
        self.calls.take_heard()
    }

    /// The commands that have no answer.
    #[cfg(feature = "cluster")]
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Command> {
        self.calls.unanswered()
    }

    /// Fails the commands of this batch that have no answer. Returns whether there are any.
    #[cfg(feature = "cluster")]
    pub(super) fn give_up(&self, batch: &Arc<Batch>, error: &NodeError) -> bool {
        self.calls.give_up(batch, error)
    }

    /// The commands that other members of the cluster have to run.
    #[cfg(feature = "cluster")]
    pub(super) fn take_redirected(&mut self) -> Vec<super::calls::Redirected> {
        self.calls.take_redirected()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::{super::tests::setup, *};

    /// Rule 18: what a server claims is believed when it has come.
    #[tokio::test]
    async fn a_reply_that_claims_to_be_huge_is_given_no_room() {
        for claim in ["$536870911\r\nx", "$2000000\r\nx", "*536870911\r\n+x\r\n"] {
            let (mut server, stream) = duplex(64);
            let mut exchange = Exchange::new(setup(stream));
            server.write_all(claim.as_bytes()).await.unwrap();
            let has_ended = poll_fn(|cx| exchange.drive(cx)).now_or_never().is_some();
            assert_eq!(has_ended, claim.contains("536870911"), "{claim:?}");
            assert!(exchange.heard.capacity() < 1 << 20, "{}", exchange.heard.capacity());
        }
    }
}
