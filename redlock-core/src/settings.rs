//! The settings of a client, and the terms of one request: its options over the defaults of the client,
//! checked.

use std::time::Duration;

use crate::{
    drift::drift,
    error::LockError,
    node::Restarts,
    options::{LockOptions, call_settings},
    token::ascii_name,
};

/// The most permits of one resource: a node looks up all their keys before it says that none is free.
const MAX_PERMITS: u32 = 1024;

/// The settings that only a client has. This is the one place where they are declared. `$then` gets them all, each with
/// its documentation, type and default, with the argument of its setter, and with what the setter makes of that
/// argument. What is passed in `$more` comes before them.
macro_rules! client_settings {
    ($then:ident $(, $more:tt)?) => {
        $then! {
            $($more)?
            /// The longest ttl that is accepted. A node that restarted gives no votes for this time plus the drift
            /// allowance. The value must be the same in all clients of a pool. Default: 60 s.
            max_ttl: Duration = Duration::from_secs(60), set by (ttl: Duration) => ttl;
            /// How long one command on one node may take. Default: 50 ms. Choose several times the usual round trip. An
            /// answer that arrives later does not count as a vote.
            node_timeout: Duration = Duration::from_millis(50), set by (timeout: Duration) => timeout;
            /// How long it may take to open one connection. Default: 1 s.
            connect_timeout: Duration = Duration::from_secs(1), set by (timeout: Duration) => timeout;
            /// The prefix of every key. Default: `redlock:`. With an empty prefix, the keys are the same as those of
            /// other Redlock clients.
            key_prefix: String = "redlock:".to_owned(), set by (prefix: impl Into<String>) => prefix.into();
            /// The name of this client in the values of its keys. Operators see it when they look at a node. Only the
            /// first 64 characters are kept. A space or a character that is not printable ASCII becomes `_`. Default:
            /// host and process id.
            client_name: String = default_client_name(),
                set by (name: impl Into<String>) => ascii_name(&name.into());
            /// Whether a node that restarted may vote on new locks at once. If it may not, a client with this node
            /// alone gets no new lock for `max_ttl` and its drift allowance. Default: [`Restarts::Observed`].
            restarts: Restarts = Restarts::default(), set by (restarts: Restarts) => restarts;
            /// The most waiters for one resource in this process. Further requests fail with
            /// [`LockError::Held`] at once. Default: 1000.
            max_waiters: usize = 1000, set by (waiters: usize) => waiters;
        }
    };
}
pub(crate) use client_settings;

macro_rules! settings {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr, set by ($argument:ident: $from:ty) => $set:expr;
    )*) => {
        /// The settings that a client was built with.
        #[derive(Debug, Clone)]
        pub(crate) struct Settings {
            /// The values of settings that calls leave unset.
            pub(crate) defaults: LockOptions,
            $(pub(crate) $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { defaults: LockOptions::defaults(), $($name: $default,)* }
            }
        }
    };
}

client_settings!(settings);

/// Host and process id.
fn default_client_name() -> String {
    ascii_name(&format!("{}:{}", host_name(), std::process::id()))
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

impl Settings {
    /// The clock drift that a client allows for by itself.
    pub(crate) fn clock_drift_factor(&self) -> f64 {
        Terms::of(self.defaults.clone()).clock_drift_factor
    }

    /// The terms of a call with these options, or what is wrong with them.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, LockError> {
        let terms = Terms::of(self.defaults.clone().merge(options.clone()));
        if !(0.0..1.0).contains(&terms.clock_drift_factor) {
            return Err(LockError::config(format!(
                "clock_drift_factor is {}: use a fraction of the ttl from 0 to below 1, usually 0.01",
                terms.clock_drift_factor
            )));
        }
        self.check_ttl("ttl", terms.ttl, terms.clock_drift_factor)?;
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
    /// Some validity has to be left of the ttl.
    pub(crate) fn check_ttl(
        &self,
        what: &str,
        ttl: Duration,
        factor: f64,
    ) -> Result<(), LockError> {
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
        let reserve = drift(ttl, factor);
        if reserve >= ttl {
            return Err(LockError::config(format!(
                "{what} is {ttl:?}, which leaves no time to hold a lock, because {reserve:?} of it are given up to clocks of different rates: use a longer ttl or a smaller clock_drift_factor",
            )));
        }
        Ok(())
    }
}

/// A setting with a default always has a value; without one, it may be absent.
macro_rules! term {
    (type $type:ty) => { Option<$type> };
    (type $type:ty, $default:expr) => { $type };
    (value $set:expr) => { $set };
    (value $set:expr, $default:expr) => { $set.unwrap_or($default) };
}

macro_rules! terms {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)*
    })*) => {
        /// The terms of one request: the client's settings changed by the call's, checked. They go with
        /// the request, and no other request sees them (rule 20).
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Terms {
            $($($(#[$doc])* pub(crate) $name: term!(type $type $(, $default)?),)*)*
            pub(crate) fenced: bool,
            pub(crate) shared: bool,
        }

        impl Terms {
            fn of(set: LockOptions) -> Self {
                Self {
                    $($($name: term!(value set.$name $(, $default)?),)*)*
                    fenced: set.fenced,
                    shared: set.shared,
                }
            }
        }
    };
}

call_settings!(terms);

impl Terms {
    /// Whether several may hold what is asked for.
    pub(crate) fn has_several(&self) -> bool {
        self.shared || self.permits.is_some()
    }

    /// How long a key lives from its SET on: through a `min_hold`, whatever the ttl.
    pub(crate) fn key_ttl(&self) -> Duration {
        self.ttl.max(self.min_hold)
    }
}
