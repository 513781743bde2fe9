//! Checking a case.

use std::{
    fmt,
    hash::Hash,
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::{Case, Expected};

/// A model that can tell a behaviour to a reader.
pub(super) trait Told:
    Model<State: Clone + Hash + PartialEq + Send + Sync, Action: Clone + PartialEq + Send + Sync>
    + fmt::Debug
    + Clone
    + Send
    + Sync
    + 'static
{
    /// How many clients there are.
    fn clients(&self) -> usize;

    /// The bounds of what may happen, in words.
    fn bounds(&self) -> String;

    /// A line a step.
    fn steps(&self, path: Vec<(Self::State, Option<Self::Action>)>) -> Vec<String>;
}

/// Any of the models, as a case has it.
pub(super) trait Subject: fmt::Debug + Send + Sync {
    fn clients(&self) -> usize;

    fn bounds(&self) -> String;

    /// Tries all behaviours, on this number of threads.
    fn check(&self, expected: Expected, threads: usize) -> Outcome;
}

impl<M: Told> Subject for M {
    fn clients(&self) -> usize {
        Told::clients(self)
    }

    fn bounds(&self) -> String {
        Told::bounds(self)
    }

    fn check(&self, expected: Expected, threads: usize) -> Outcome {
        let model = self.clone().checker().finish_when(HasDiscoveries::AnyFailures);
        let begun = Instant::now();
        match expected {
            Expected::Holds => outcome(&model.threads(threads).spawn_dfs().join(), begun),
            Expected::Broken(_) => outcome(&model.spawn_bfs().join(), begun),
        }
    }
}

/// What trying every behaviour came to.
#[derive(Debug)]
pub struct Outcome {
    /// What was found.
    pub found: Expected,
    /// A short way there, a line a step, when a property was broken.
    pub steps: Vec<String>,
    /// What should have happened in some behaviour and did not: the case says nothing then.
    pub never: Vec<&'static str>,
    /// States that differ in more than names.
    pub unique: usize,
    /// Steps tried.
    pub total: usize,
    /// How many steps the longest way to a new state has.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
}

/// Tries all behaviours of a case, on this number of threads. A case that has to break is searched on one
/// thread and breadth first, which finds a short way. A case that has to hold is searched depth first,
/// which takes less memory.
pub fn check(case: &Case, threads: usize) -> Outcome {
    case.subject.check(case.expected, threads)
}

fn outcome<M: Told>(checker: &impl Checker<M>, begun: Instant) -> Outcome {
    let properties = checker.model().properties();
    let mut discoveries = checker.discoveries();
    let mut never = Vec::new();
    let mut broken: Option<(&'static str, Vec<String>)> = None;
    for property in &properties {
        let discovery = discoveries.remove(property.name);
        match (&property.expectation, discovery) {
            (Expectation::Sometimes, None) => never.push(property.name),
            (Expectation::Always, Some(path)) => {
                let mut path = path.into_vec();
                // The checker tells the last that it saw: the way there may have been one before.
                let holds = |(state, _): &_| (property.condition)(checker.model(), state);
                path.truncate(path.iter().take_while(|step| holds(step)).count() + 1);
                let steps = checker.model().steps(path);
                if broken.as_ref().is_none_or(|(_, shortest)| steps.len() < shortest.len()) {
                    broken = Some((property.name, steps));
                }
            }
            _ => {}
        }
    }
    let (unique, total) = (checker.unique_state_count(), checker.state_count());
    let (found, steps) = match broken {
        Some((property, steps)) => {
            // The search ended early, so that it says nothing about what never happens.
            never.clear();
            (Expected::Broken(property), steps)
        }
        None => (Expected::Holds, Vec::new()),
    };
    let depth = checker.max_depth();
    Outcome { found, steps, never, unique, total, depth, time: begun.elapsed() }
}

impl Outcome {
    /// Whether the case came out as it should.
    pub fn is_as_expected(&self, case: &Case) -> bool {
        self.found == case.expected && self.never.is_empty()
    }
}
