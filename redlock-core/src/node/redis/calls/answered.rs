//! What follows from the answers to calls: a result for each command, or another call.

use std::{iter::repeat_n, sync::Arc, time::Duration};

use redis::{ServerErrorKind, Value};

use super::{Awaited, Call, Calls, MAX_HOPS, Means, Redirected, Stage};
use crate::{
    error::NodeError,
    node::{
        Action, Command, Reply, Told,
        redis::{
            acknowledged::{Acknowledged, Judged},
            answers, command, frame, native,
            redirect::Redirect,
            reply,
            script::How,
            server_error,
        },
    },
};

impl Calls {
    /// Takes the next answer in. What follows from it is written.
    pub(in crate::node::redis) fn answer(
        &mut self,
        answer: Value,
        out: &mut Vec<u8>,
    ) -> Result<(), frame::NotRedis> {
        match self.awaited.pop_front() {
            Some(Awaited::Call(call)) if call.answers == 1 => {
                self.answered(call, std::slice::from_ref(&answer), out);
            }
            Some(Awaited::Call(mut call)) => {
                call.got.push(answer);
                if call.got.len() < call.answers {
                    self.awaited.push_front(Awaited::Call(call));
                    return Ok(());
                }
                let mut answers = std::mem::take(&mut call.got);
                if call.asking {
                    answers = answers.into_iter().skip(1).step_by(2).collect();
                }
                self.answered(call, &answers, out);
            }
            Some(Awaited::Replicas) => {
                let Some(acknowledged) = &mut self.acknowledged else { return Ok(()) };
                let (judged, next) = acknowledged.answered(&answer);
                if let Some(wait) = next {
                    command::wait(wait, out);
                    self.awaited.push_back(Awaited::Replicas);
                }
                self.judge(judged);
            }
            Some(Awaited::Pong(tell)) => {
                let pong = match &answer {
                    Value::SimpleString(_) => Ok(()),
                    Value::ServerError(error) => Err(NodeError {
                        cause: server_error::cause(&answer),
                        ..self.failed(server_error::explain(error, ""), false)
                    }),
                    other => Err(self.failed(reply::unexpected(other, "PONG"), false)),
                };
                // The caller may not wait any more.
                self.heard |= tell.send(pong).is_ok();
            }
            Some(Awaited::Nothing) => {}
            // An answer without a question. Later answers could not be matched to their commands.
            None => return Err(frame::NotRedis),
        }
        Ok(())
    }

    /// Concludes a call that has all its answers.
    fn answered(&mut self, call: Call, answers: &[Value], out: &mut Vec<u8>) {
        let Some(answer) = answers.first() else { return };
        let commands = &call.batch.commands[call.first..call.first + call.count];
        #[cfg(feature = "cluster")]
        if self.is_member {
            self.heard |= call.batch.awaits(call.first);
        }
        if self.is_member
            && call.hops < MAX_HOPS
            // The other member would begin anew, and find no key: the delete was confirmed here.
            && !matches!(call.stage, Stage::Wake { .. })
            && let Some(to) = Redirect::of(answer)
        {
            let Call { batch, first: place, hops, .. } = call;
            self.redirected.push(Redirected { batch, place, to, hops: hops + 1 });
            return;
        }
        // A server that does not know a script has run nothing. It gets the source, whether
        // or not the caller still waits (rules 5 and 17).
        if is_no_script(answer)
            && call.means == Means::Script(How::ByHash)
            && !self.is_being_released(commands)
        {
            return self.again(Call { means: Means::Script(How::InFull), ..call }, out);
        }
        if is_cross_slot(answer) && call.count > 1 {
            self.apart = true;
            for first in call.first..call.first + call.count {
                let batch = Arc::clone(&call.batch);
                self.call(Call { batch, first, count: 1, got: Vec::new(), ..call }, out);
            }
            return;
        }
        match (call.means, call.stage, commands) {
            (Means::Native(_), Stage::First, [command]) => match native::read(command, answers) {
                native::Next::Answer(result) => self.settle(&call, answer, result),
                native::Next::Prolong { .. } if self.is_being_released(commands) => {
                    // It would undo what the release leaves of the key for the rest of `min_hold`.
                    self.settle(&call, answer, Ok(Reply::Missing));
                }
                native::Next::Prolong { left, ttl } => {
                    // Rule 7: an extension never shortens. What is left was read before the others run. It does not
                    // count on them either: they may fail.
                    let ttl = self.prolonging(command).fold(ttl, Duration::max);
                    self.again(Call { stage: Stage::Prolong { left, ttl }, ..call }, out);
                }
                native::Next::Wake { deleted } => {
                    let means = Means::Script(self.known.how(command));
                    self.again(Call { means, stage: Stage::Wake { deleted }, ..call }, out);
                }
                native::Next::Unknown if self.abilities.scripts => {
                    self.abilities.delete = None;
                    let means = Means::Script(self.known.how(command));
                    self.again(Call { means, ..call }, out);
                }
                native::Next::Unknown => {
                    let why = reply::decode(command.action, answer, &command.claim.value);
                    self.settle(&call, answer, why);
                }
            },
            (_, Stage::Prolong { left, .. }, [command]) => {
                let result = native::prolonged(command, answer, left);
                self.settle(&call, answer, result);
            }
            (_, Stage::Wake { deleted }, [command]) => {
                // The native delete was confirmed. A waiter that was not woken looks for itself.
                let woken = reply::decode(command.action, answer, "");
                let result = match woken {
                    Ok(Reply::Woke { told, .. }) => Reply::Woke { deleted, told },
                    // The waiters have left since the queue was looked at.
                    Ok(Reply::Done | Reply::Missing) => native::gone(deleted),
                    // The script looks at the lock before it looks at the queue. The client may have taken the
                    // lock again, behind the delete: it has to hear that others wait, and let them go first the
                    // next time.
                    _ => Reply::Unwoken { deleted, told: Told::default() },
                };
                self.settle(&call, answer, Ok(result));
            }
            (_, _, [command]) => {
                self.settle(&call, answer, answers::decode(command, answer));
            }
            // Only releases share a call (`command::together`), and they wait for no replicas.
            (_, _, commands) => {
                let results = answers::decode_all(commands, answer);
                let results = results.map(|result| self.explained(answer, result));
                call.batch.answer_all(call.first, results);
            }
        }
    }

    /// Delivers the result of a call of one command. A vote may still wait for replicas.
    fn settle(&mut self, call: &Call, answer: &Value, result: Result<Reply, String>) {
        let place = call.first;
        let action = call.batch.commands.get(place).map(|it| it.action);
        match (result, action, &mut self.acknowledged) {
            (Ok(reply), Some(action), Some(acknowledged))
                if Acknowledged::concerns(action, &reply) =>
            {
                acknowledged.hold(&call.batch, place, reply);
            }
            (result, _, _) => call.batch.answer(place, self.explained(answer, result)),
        }
    }

    /// The error in the words of this answer, as an error of the node.
    fn explained(&self, answer: &Value, result: Result<Reply, String>) -> Result<Reply, NodeError> {
        result.map_err(|reason| NodeError {
            cause: server_error::cause(answer),
            ..self.failed(reason, !server_error::is_refusal(answer))
        })
    }

    /// Delivers votes that have waited for replicas. A vote that failed may have been given all the
    /// same.
    fn judge(&self, judged: Vec<Judged>) {
        for (batch, place, verdict) in judged {
            batch.answer(place, verdict.map_err(|reason| self.failed(reason, true)));
        }
    }

    /// Fails all calls without an answer, as no more answers come.
    pub(in crate::node::redis) fn end(&mut self, error: &NodeError) {
        for awaited in std::mem::take(&mut self.awaited) {
            match awaited {
                Awaited::Call(Call { batch, first, count, .. }) => {
                    batch.answer_all(first, repeat_n(Err(error.clone()), count));
                }
                // The caller may not wait any more.
                Awaited::Pong(tell) => drop(tell.send(Err(error.clone()))),
                Awaited::Replicas | Awaited::Nothing => {}
            }
        }
        for (batch, place) in self.acknowledged.iter_mut().flat_map(Acknowledged::abandon) {
            batch.answer(place, Err(error.clone()));
        }
    }

    /// For how long the extensions that are on their way let the key of this one live.
    fn prolonging(&self, command: &Command) -> impl Iterator<Item = Duration> {
        self.awaited.iter().filter_map(|awaited| {
            let Awaited::Call(Call { batch, first, stage: Stage::Prolong { ttl, .. }, .. }) =
                awaited
            else {
                return None;
            };
            let other = batch.commands.get(*first)?;
            Arc::ptr_eq(&other.claim, &command.claim).then_some(*ttl)
        })
    }

    /// Whether a lock of these commands was released since they were sent, or a barrier lowered. Sent again, the commands
    /// would run behind that, and leave behind the key that it was to remove (rule 5).
    fn is_being_released(&self, commands: &[Command]) -> bool {
        let takes_back = |later: &Command, it: &Command| match it.action {
            Action::RaiseBarrier { .. } => later.action == Action::LowerBarrier,
            _ => later.action.removes(),
        };
        let removes = |later: &Command| {
            let of_one = |it: &&Command| Arc::ptr_eq(&it.claim, &later.claim);
            commands.iter().filter(of_one).any(|it| takes_back(later, it))
        };
        let removing = commands.first().is_some_and(removes);
        !removing
            && self.awaited.iter().any(|awaited| match awaited {
                Awaited::Call(Call { batch, first, count, .. }) => {
                    batch.commands.iter().skip(*first).take(*count).any(removes)
                }
                Awaited::Pong(_) | Awaited::Replicas | Awaited::Nothing => false,
            })
    }
}

fn is_cross_slot(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "CROSSSLOT")
}

fn is_no_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}
