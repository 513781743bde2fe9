//! The exchange over one connection: commands out, in order, and one answer each.
//!
//! No caller waits for a command to be written. The commands of one call go out at once, in one
//! write. Bytes that the socket does not take go out before any later command.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use redis::{PushKind, ServerErrorKind, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

use super::{
    answers,
    batch::Batch,
    command::{self, Known},
    frame, reply,
    transport::{CloseReason, NOT_REDIS, Transport},
    words::How,
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Action, Command, Watchers},
};

/// Room for answers to begin with: those of a full batch are a few bytes each.
const ROOM: usize = 4096;

/// The receiver of the next answer.
enum Awaited {
    /// `count` commands of a batch from `first` on, which went out as one call.
    Answer {
        batch: Arc<Batch>,
        first: usize,
        count: usize,
        how: How,
    },
    Pong(oneshot::Sender<Result<(), NodeError>>),
    /// No receiver: if the server does not track the key after all, only a push is missing.
    Nothing,
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
    /// The bytes that were read; the first `filled` are valid.
    heard: Vec<u8>,
    filled: usize,
    awaited: VecDeque<Awaited>,
    known: Known,
    /// The server is a cluster, or stands before a cluster: it takes keys of different slots only
    /// in separate calls.
    apart: bool,
    /// The task that reads.
    driver: Option<Waker>,
    /// The listeners to changes of keys, if the server tells of them.
    watchers: Option<Arc<Watchers>>,
    /// Pushes that the listeners are told once nothing is locked.
    pushed: Vec<Pushed>,
}

/// The pushes of a server.
pub(super) enum Pushed {
    /// This key has changed.
    Key(String),
    /// Any key may have changed: `FLUSHALL`.
    All,
}

impl Exchange {
    pub(super) fn new(
        node: Arc<str>,
        transport: Transport,
        close_reason: CloseReason,
        watchers: Option<Arc<Watchers>>,
    ) -> Self {
        Self {
            node,
            transport: Some(transport),
            close_reason,
            out: Vec::new(),
            written: 0,
            heard: vec![0; ROOM],
            filled: 0,
            awaited: VecDeque::new(),
            known: Known::default(),
            apart: false,
            driver: None,
            watchers,
            pushed: Vec::new(),
        }
    }

    /// Whether the server pushes changes of keys.
    pub(super) fn tells(&self) -> bool {
        self.watchers.is_some()
    }

    pub(super) fn close_reason(&self) -> CloseReason {
        self.close_reason.clone()
    }

    /// Queues commands and writes as much as possible.
    pub(super) fn ask(&mut self, commands: Vec<Command>) -> Arc<Batch> {
        let batch = Batch::new(commands);
        let mut first = 0;
        while let Some(command) = batch.commands.get(first) {
            let count = if self.apart { 1 } else { command::together(&batch.commands[first..]) };
            self.track(command);
            let how = self.known.how(command);
            command::encode(&batch.commands[first..first + count], how, &mut self.out);
            self.awaited.push_back(Awaited::Answer {
                batch: Arc::clone(&batch),
                first,
                count,
                how,
            });
            first += count;
        }
        self.write();
        batch
    }

    /// Has the server push the changes that a command listens for. A waiter listens before it
    /// joins, so that it cannot miss its turn.
    fn track(&mut self, command: &Command) {
        if self.watchers.is_none() {
            return;
        }
        match command.action {
            Action::Watch => {
                command::track(&mut self.out);
                self.awaited.push_back(Awaited::Nothing);
            }
            Action::Join { listens: true, .. } => {
                command::track(&mut self.out);
                command::listen(&command.claim, &mut self.out);
                self.awaited.extend([Awaited::Nothing, Awaited::Nothing]);
            }
            _ => {}
        }
    }

    /// Asks whether the server is alive.
    pub(super) fn ping(&mut self) -> oneshot::Receiver<Result<(), NodeError>> {
        let (tell, told) = oneshot::channel();
        command::ping(&mut self.out);
        self.awaited.push_back(Awaited::Pong(tell));
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
        for awaited in std::mem::take(&mut self.awaited) {
            match awaited {
                Awaited::Answer { batch, first, count, .. } => {
                    for place in first..first + count {
                        batch.answer(place, Err(error.clone()));
                    }
                }
                // The caller may have gone.
                Awaited::Pong(tell) => drop(tell.send(Err(error.clone()))),
                Awaited::Nothing => {}
            }
        }
    }

    /// Why it has ended.
    pub(super) fn disconnected(&self) -> NodeError {
        NodeError::new(&self.node, NodeErrorKind::Disconnected, self.close_reason.reason())
    }

    /// Writes as much as the socket takes. The driver is woken when the socket takes more, and
    /// learns of errors.
    fn write(&mut self) {
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
        if let Poll::Ready(Err(_)) = Pin::new(transport).poll_flush(&mut cx) {
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
            match &value {
                Value::Push { kind: PushKind::Invalidate, data } => self.hear(data),
                // No reply belongs to a push: this client subscribes to nothing.
                Value::Push { .. } => {}
                answer => self.answer(answer)?,
            }
        }
        self.heard.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    /// Notes that keys have changed which the server was asked to track.
    fn hear(&mut self, keys: &[Value]) {
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

    fn answer(&mut self, answer: &Value) -> Result<(), frame::NotRedis> {
        match self.awaited.pop_front() {
            Some(Awaited::Answer { batch, first, count, how }) => {
                let commands = &batch.commands[first..first + count];
                // A server that does not know a script has run nothing. It gets the source, whether
                // or not the caller still waits (rules 5 and 17).
                if is_no_script(answer) && how == How::ByHash && !self.is_let_go(commands) {
                    let how = How::InFull;
                    command::encode(commands, how, &mut self.out);
                    self.awaited.push_back(Awaited::Answer { batch, first, count, how });
                    return Ok(());
                }
                if is_cross_slot(answer) && count > 1 {
                    self.apart = true;
                    for first in first..first + count {
                        let (batch, how, count) = (Arc::clone(&batch), How::ByHash, 1);
                        command::encode(&batch.commands[first..=first], how, &mut self.out);
                        self.awaited.push_back(Awaited::Answer { batch, first, count, how });
                    }
                    return Ok(());
                }
                let may_have_run = !reply::is_refusal(answer);
                let failed = |reason| NodeError { may_have_run, ..self.failed(reason) };
                for (place, decoded) in answers::decode_all(commands, answer).enumerate() {
                    batch.answer(first + place, decoded.map_err(failed));
                }
            }
            Some(Awaited::Pong(tell)) => {
                let pong = match answer {
                    Value::SimpleString(_) => Ok(()),
                    Value::ServerError(error) => Err(self.failed(reply::explain(error, ""))),
                    other => Err(self.failed(reply::unexpected(other, "PONG"))),
                };
                // The caller may have gone.
                let _ = tell.send(pong);
            }
            Some(Awaited::Nothing) => {}
            // An answer without a question. Later answers could not be matched to their commands.
            None => return Err(frame::NotRedis),
        }
        Ok(())
    }

    /// Whether a lock of these commands was released since they were sent. Sent again, the commands
    /// would run behind the release, and leave behind the key that it was to remove (rule 5).
    fn is_let_go(&self, commands: &[Command]) -> bool {
        let removes = |later: &Command| {
            let lets_go = matches!(
                later.action,
                Action::Release { .. } | Action::Shorten { .. } | Action::Leave
            );
            lets_go && commands.iter().any(|it| Arc::ptr_eq(&it.claim, &later.claim))
        };
        let removing = commands.first().is_some_and(removes);
        !removing
            && self.awaited.iter().any(|awaited| match awaited {
                Awaited::Answer { batch, first, count, .. } => {
                    batch.commands.iter().skip(*first).take(*count).any(removes)
                }
                Awaited::Pong(_) | Awaited::Nothing => false,
            })
    }

    fn failed(&self, reason: String) -> NodeError {
        NodeError::new(&self.node, NodeErrorKind::Server, reason)
    }
}

fn is_cross_slot(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "CROSSSLOT")
}

fn is_no_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}
