//! The events that an operator sees.

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

/// While only one subscriber is alive, tracing asks it once whether any subscriber wants an event,
/// and does so on the thread that meets the event first. A thread that does not listen would answer
/// for all threads.
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
        Self::recorder(Recorder { lines: Arc::default(), traces: false })
    }

    /// Records everything from now on, spans included: for [`traces`](Self::traces).
    pub fn record_traces() -> Self {
        Self::recorder(Recorder { lines: Arc::default(), traces: true })
    }

    fn recorder(told: Recorder) -> Self {
        LazyLock::force(&SECOND);
        let default = tracing::subscriber::set_default(told.clone());
        Self { told, _default: default }
    }

    /// The warnings so far: the message, then each field.
    pub fn warnings(&self) -> Vec<String> {
        self.told.lines().clone()
    }

    /// The spans and events so far: the name or the message, then each field.
    pub fn traces(&self) -> Vec<String> {
        self.told.lines().clone()
    }

    /// Whether some warning has all of these words in it.
    pub fn warned_of(&self, words: &[&str]) -> bool {
        self.told.lines().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }
}

#[derive(Debug, Clone)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    traces: bool,
}

impl Recorder {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.traces || metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line::default();
        span.record(&mut line);
        self.lines().push(span.metadata().name().to_owned() + &line.fields);
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
