//! Commands that go out in one write, and their answers.

use std::{
    sync::Arc,
    task::{Poll, Waker},
};

use crate::{
    error::NodeError,
    node::{Command, Reply},
    sync::{AtomicWaker, Mutex},
};

/// Commands that were sent together, and their answers so far.
pub(super) struct Batch {
    pub(super) commands: Vec<Command>,
    answers: Mutex<Collected>,
    asker: AtomicWaker,
}

struct Collected {
    given: Vec<Option<Result<Reply, NodeError>>>,
    missing: usize,
}

impl Batch {
    pub(super) fn new(commands: Vec<Command>) -> Arc<Self> {
        let given = std::iter::repeat_with(|| None).take(commands.len()).collect();
        let answers = Mutex::new(Collected { given, missing: commands.len() });
        Arc::new(Self { commands, answers, asker: AtomicWaker::new() })
    }

    pub(super) fn answer(&self, place: usize, result: Result<Reply, NodeError>) {
        self.answer_all(place, std::iter::once(result));
    }

    /// Answers the commands from `first` on. A command that was answered before keeps its answer.
    pub(super) fn answer_all(
        &self,
        first: usize,
        results: impl Iterator<Item = Result<Reply, NodeError>>,
    ) {
        let complete = {
            let mut answers = self.answers.lock();
            let Collected { given, missing } = &mut *answers;
            for (slot, result) in given.iter_mut().skip(first).zip(results) {
                if slot.is_none() {
                    *slot = Some(result);
                    *missing -= 1;
                }
            }
            *missing == 0
        };
        if complete {
            self.asker.wake();
        }
    }

    /// Whether this command has no answer yet.
    #[cfg(feature = "cluster")]
    pub(super) fn awaits(&self, place: usize) -> bool {
        matches!(self.answers.lock().given.get(place), Some(None))
    }

    /// Whether all answers are there.
    #[cfg(feature = "cluster")]
    pub(super) fn is_complete(&self) -> bool {
        self.answers.lock().missing == 0
    }

    /// Wakes this waker when all answers are there.
    pub(super) fn register(&self, asker: &Waker) {
        self.asker.register(asker);
    }

    /// All answers, once they are there.
    pub(super) fn poll(&self) -> Poll<Vec<Result<Reply, NodeError>>> {
        let mut answers = self.answers.lock();
        if answers.missing > 0 {
            return Poll::Pending;
        }
        // This collects in place, and `flatten` does not. No answer is missing.
        Poll::Ready(std::mem::take(&mut answers.given).into_iter().map_while(|it| it).collect())
    }
}
