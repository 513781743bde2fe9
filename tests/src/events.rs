//! What the library tells an operator.

use std::{
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{DefaultGuard, NoSubscriber},
};

/// While only one subscriber is alive, tracing asks it by way of the thread that meets an event first
/// whether anybody wants that, once and for all: a thread that does not listen says no for those that
/// do.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Records the `tracing` events of this thread for as long as it lives: all those of a client on
/// a current-thread runtime.
#[derive(Debug)]
#[must_use = "nothing is recorded once it is dropped"]
pub struct Events {
    told: Recorder,
    _default: DefaultGuard,
}

impl Events {
    /// Records from now on.
    pub fn record() -> Self {
        LazyLock::force(&SECOND);
        let told = Recorder::default();
        let default = tracing::subscriber::set_default(told.clone());
        Self { told, _default: default }
    }

    /// The warnings so far: the message, then each field.
    pub fn warnings(&self) -> Vec<String> {
        self.told.lines().clone()
    }

    /// Whether some warning has all of these words in it.
    pub fn warned_of(&self, words: &[&str]) -> bool {
        self.told.lines().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }
}

#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.lines().push(line.message + &line.fields);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields += &format!(" {name}={value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_recorded_with_their_fields_and_nothing_else_is() {
        let events = Events::record();
        tracing::warn!(node = "a:1", "node {}", "down");
        tracing::info!("node up");
        assert_eq!(events.warnings(), [r#"node down node="a:1""#]);
        assert!(events.warned_of(&["down", "a:1"]));
        assert!(!events.warned_of(&["down", "a:2"]));
    }
}
