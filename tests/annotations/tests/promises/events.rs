//! What is logged as an error.

use std::sync::{Arc, LazyLock, Mutex};

use tracing::{
    Dispatch, Level, Subscriber,
    field::Visit,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

/// While only one subscriber is alive, tracing asks it by way of the thread that meets an event first
/// whether anybody wants that, once and for all: a thread that does not listen says no for those that
/// do.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The error events of this thread.
#[derive(Clone, Default)]
pub(crate) struct Errors(Arc<Mutex<Vec<String>>>);

impl Errors {
    /// Collects for as long as the returned guard lives.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND);
        let errors = Self::default();
        let subscriber = tracing_subscriber::registry().with(errors.clone());
        (errors, subscriber.set_default())
    }

    /// The texts so far that are about a default value, taken.
    pub(crate) fn of_defaults(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        all.into_iter().filter(|text| text.contains("default value")).collect()
    }
}

impl<S: Subscriber> Layer<S> for Errors {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{value:?} "));
            }
        }
        if *event.metadata().level() == Level::ERROR {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }
    }
}
