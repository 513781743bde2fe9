//! The settings of a client, and the terms of one request: its options over the defaults of the client,
//! checked.

use std::time::Duration;

use crate::{error::LockError, node::Restarts, options::LockOptions};

/// The most permits of one resource: a node looks up all their keys before it says that none is free.
const MAX_PERMITS: u32 = 1024;

/// The settings that a client was built with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The values of settings that calls leave unset.
    pub(crate) defaults: LockOptions,
    pub(crate) max_ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) client_name: String,
    pub(crate) restarts: Restarts,
    pub(crate) max_waiters: usize,
}

impl Settings {
    /// The defaults of a client with this name.
    pub(crate) fn new(client_name: String) -> Self {
        Self {
            defaults: LockOptions::new()
                .ttl(Duration::from_secs(30))
                .wait(Duration::from_secs(5))
                .retry_delay(Duration::from_millis(200))
                .retry_jitter(Duration::from_millis(100))
                .clock_drift_factor(0.01),
            max_ttl: Duration::from_secs(60),
            node_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            key_prefix: "redlock:".to_owned(),
            client_name,
            restarts: Restarts::default(),
            max_waiters: 1000,
        }
    }

    /// The clock drift that a client allows for by itself.
    pub(crate) fn clock_drift_factor(&self) -> f64 {
        self.defaults.clock_drift_factor.unwrap_or_default()
    }

    /// The terms of a call with these options, or what is wrong with them.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, LockError> {
        // A client has a default for each setting that has no default below.
        let set = self.defaults.clone().merge(options.clone());
        let terms = Terms {
            label: set.label.unwrap_or_default(),
            ttl: set.ttl.unwrap_or_default(),
            wait: set.wait.unwrap_or_default(),
            retry_count: set.retry_count,
            retry_delay: set.retry_delay.unwrap_or_default(),
            retry_jitter: set.retry_jitter.unwrap_or_default(),
            clock_drift_factor: set.clock_drift_factor.unwrap_or_default(),
            auto_extend: set.auto_extend.unwrap_or(true),
            max_hold: set.max_hold,
            min_hold: set.min_hold.unwrap_or_default(),
            fenced: set.fenced,
            shared: set.shared,
            permits: set.permits,
        };
        self.check_ttl("ttl", terms.ttl)?;
        if !(0.0..1.0).contains(&terms.clock_drift_factor) {
            return Err(LockError::config(format!(
                "clock_drift_factor is {}: use a fraction of the ttl from 0 to below 1, usually 0.01",
                terms.clock_drift_factor
            )));
        }
        if terms.min_hold > self.max_ttl {
            return Err(LockError::config(format!(
                "min_hold is {:?}, but no key may live longer than max_ttl, {:?}: use a shorter min_hold or raise max_ttl in all clients",
                terms.min_hold, self.max_ttl
            )));
        }
        if terms.max_hold.is_some_and(|max| max.is_zero()) {
            return Err(LockError::config(
                "max_hold is zero: leave it unset for no limit, or use a positive duration",
            ));
        }
        if terms.permits.is_some() && (terms.fenced || terms.shared) {
            return Err(LockError::config(
                "permits with fenced or shared: their holders have no order that a token could tell, and \
                 each has one permit; remove one of the two",
            ));
        }
        if terms.permits.is_some_and(|count| !(1..=MAX_PERMITS).contains(&count)) {
            return Err(LockError::config(format!(
                "permits is {}: use a number from 1 to {MAX_PERMITS}",
                terms.permits.unwrap_or_default()
            )));
        }
        if terms.fenced && terms.shared {
            return Err(LockError::config(
                "fenced and shared: readers hold the lock together, so that no order of theirs could be \
                 told by a token; remove one of the two",
            ));
        }
        Ok(terms)
    }

    /// Redis keeps expiries in whole milliseconds, and a renewal needs room for a node to answer
    /// late and be asked again: 3 x `node_timeout` is the least that can work.
    pub(crate) fn check_ttl(&self, what: &str, ttl: Duration) -> Result<(), LockError> {
        let least = self.node_timeout.saturating_mul(3);
        if ttl < least || ttl < Duration::from_millis(1) {
            return Err(LockError::config(format!(
                "{what} is {ttl:?}, too short for a node_timeout of {:?}: use at least {:?}, or lower node_timeout",
                self.node_timeout,
                least.max(Duration::from_millis(1)),
            )));
        }
        if ttl > self.max_ttl {
            return Err(LockError::config(format!(
                "{what} is {ttl:?}, over max_ttl: use at most {:?}, or raise max_ttl in all clients of the pool",
                self.max_ttl
            )));
        }
        Ok(())
    }
}

/// The terms of one request: the client's settings changed by the call's, checked. They go with the
/// request, and no other request sees them (rule 20).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    /// Empty when the request has none.
    pub(crate) label: &'static str,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) retry_count: Option<u32>,
    pub(crate) retry_delay: Duration,
    pub(crate) retry_jitter: Duration,
    pub(crate) clock_drift_factor: f64,
    pub(crate) auto_extend: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Duration,
    pub(crate) fenced: bool,
    pub(crate) shared: bool,
    pub(crate) permits: Option<u32>,
}

impl Terms {
    /// Whether several may hold what is asked for.
    pub(crate) fn has_several(&self) -> bool {
        self.shared || self.permits.is_some()
    }

    /// How long a key lives from its SET on: through a `min_hold`, whatever the ttl (api.md).
    pub(crate) fn key_ttl(&self) -> Duration {
        self.ttl.max(self.min_hold)
    }
}
