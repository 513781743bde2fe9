//! The settings of a call, each declared once for all layers that expose it. What a call sets is a
//! value that goes with the call (rule 20).

use std::time::Duration;

/// The settings of a call. This is the one place where they are declared: `$then` gets them all, each with
/// its documentation, its type and its default, if it has one. First come those that a client has
/// defaults for, then those that only a call has. `fenced` and `shared` beside them take no value. What
/// is passed in `$more` comes before them.
macro_rules! call_settings {
    ($then:ident $(, $more:tt)?) => {
        $then! {
            $($more)?
            of_client {
                /// How long a node keeps a lock that is not renewed, at least 3 x `node_timeout` and
                /// at most `max_ttl`. The default of a client: 30 s.
                ttl: Duration = Duration::from_secs(30);
                /// How long to wait for the lock. The last attempt starts before this time ends, except in
                /// three cases:
                ///
                /// - On first use, the time counts from when the nodes are connected, at most `connect_timeout` later.
                /// - A client has at most 512 attempts in flight, and fewer where the nodes answer slowly. Beyond
                ///   them, a first attempt waits for a free place for the rest of `wait`, and for at least 10 s even
                ///   if that is shorter.
                /// - If the runtime that reads the answers is blocked or has ended, the attempt is made again on the
                ///   runtime of the caller.
                ///
                /// A request also waits for a quorum: [`NoQuorum`](crate::LockError::NoQuorum) is returned when this
                /// time or the retries are over, and not at once. During an outage of the nodes, each request takes its
                /// whole `wait`. With `Duration::MAX` it waits through the outage.
                ///
                /// Zero means at most one attempt. If other clients waited a moment ago, such a request first checks
                /// whether they still wait. The default of a client: 5 s.
                wait: Duration = Duration::from_secs(5);
                /// At most this many timed retries after the first attempt. A waiter that a release wakes makes no
                /// timed retries. It gives up at the time at which this many retries, with the jitter, would have been
                /// over, even if `wait` is longer and a later release would have woken it. In a queue of this process,
                /// every `retry_delay` counts as one retry. Zero means at most one attempt, as for `wait`.
                ///
                /// `wait` is a limit as well: the shorter of the two ends the waiting. Unset by default: `wait` is
                /// then the only limit. `u32::MAX` removes a limit that the client sets.
                retry_count: u32;
                /// The pause between attempts when nothing wakes a waiter earlier. The waiters for
                /// one resource in this process share the shortest pause among them. After an attempt
                /// without a quorum, ten seconds are the most. The default of a client: 200 ms.
                retry_delay: Duration = Duration::from_millis(200);
                /// A random time up to this is added to each pause. The default of a client: 100 ms.
                retry_jitter: Duration = Duration::from_millis(100);
                /// The part of the ttl, from 0 to below 1, that is reserved for clocks that run at
                /// different rates. The default of a client: 0.01, as in the description of
                /// Redlock. Clocks that NTP keeps drift far less.
                clock_drift_factor: f64 = 0.01;
            }
            of_call {
                /// The name of the lock in metrics and spans, such as `"invoice"`. Every value is its own
                /// time series, so name a kind of resource and not a single resource. Default: none; in
                /// annotations, the template.
                label: &'static str = "";
                /// Whether the lock renews itself. Default: true.
                auto_extend: bool = true;
                /// The longest time for which the lock is held. After that, it is lost. Unset by default. It is measured
                /// by the clock of the process, which may stand still while its machine does.
                ///
                /// Others may be locked out for longer: for `max_hold` and the ttl. A holder that is not polled loses
                /// the lock after `max_hold`, and `lost()` of a bare guard resolves. But the keys stay on the nodes
                /// until the guard is dropped or the ttl ends. Set a short `ttl` where that matters.
                max_hold: Duration;
                /// The shortest time for which the key stays, from when the lock was taken. If the lock is
                /// released earlier, or its holder crashes, it stays taken for the rest of this time. At
                /// most `max_ttl`. Unset by default.
                min_hold: Duration = Duration::ZERO;
                /// At most this many clients and tasks hold the resource at once, 1 to 1024. All clients must
                /// use the same number. Permits have their own keys: they do not exclude a lock on the same
                /// resource. Unset by default: a lock, with one holder.
                ///
                /// Permits are given in the order in which clients wait. Where several are free, a client is given
                /// its share of them. If a holder crashes, its permit is free again after the ttl. It is a
                /// [`Config`](crate::LockError::Config) error to combine permits with `fenced` or `shared`, or with
                /// a set of resources. One attempt may try up to four permits in turn, because another client can
                /// take a permit that looked free. A permit cannot be given to another process.
                /// [`inspect`](crate::Redlock::inspect) of the resource shows no permits: each permit is a lock
                /// with its own name, such as `job:{redlock:job}:permit:0` for the resource `job` with the
                /// prefix `redlock:`.
                permits: u32;
            }
        }
    };
}
pub(crate) use call_settings;

/// The setters of a request, whose field `options` holds what was set (rule 20).
macro_rules! request_setters {
    ($request:ident $($group:ident {
        $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)*
    })*) => {
        impl $request {
            $($(
                $(#[$doc])*
                pub fn $name(mut self, $name: $type) -> Self {
                    self.options = self.options.$name($name);
                    self
                }
            )*)*

            /// Applies the settings of these options.
            pub fn options(mut self, options: LockOptions) -> Self {
                self.options = self.options.merge(options);
                self
            }
        }
    };
}
pub(crate) use request_setters;

macro_rules! options {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)*
    })*) => {
        /// The settings of one call. A setting that is left unset keeps the client's value. If a setting is
        /// set twice, the later value counts.
        ///
        /// ```
        /// use std::time::Duration;
        /// use redlock_core::LockOptions;
        ///
        /// let patient =
        ///     LockOptions::new().ttl(Duration::from_secs(10)).wait(Duration::from_secs(60));
        /// # let _ = patient;
        /// ```
        #[derive(Debug, Clone, Default, PartialEq)]
        #[must_use = "options do nothing until a request takes them"]
        pub struct LockOptions {
            $($(pub(crate) $name: Option<$type>,)*)*
            pub(crate) fenced: bool,
            pub(crate) shared: bool,
        }

        impl LockOptions {
            /// Options in which nothing is set.
            pub const fn new() -> Self {
                Self { $($($name: None,)*)* fenced: false, shared: false }
            }

            /// The settings that have a default.
            pub(crate) const fn defaults() -> Self {
                Self::new()$($($(.$name($default))?)*)*
            }

            $($(
                $(#[$doc])*
                pub const fn $name(mut self, $name: $type) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*)*

            /// These options, changed by what `later` sets.
            pub(crate) fn merge(self, later: Self) -> Self {
                Self {
                    $($($name: later.$name.or(self.$name),)*)*
                    fenced: later.fenced || self.fenced,
                    shared: later.shared || self.shared,
                }
            }
        }
    };
}

call_settings!(options);

impl LockOptions {
    /// Also requests a fencing token. Off by default. See
    /// [`LockRequest::fenced`](crate::LockRequest::fenced).
    pub const fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Requests the lock as one of its readers. Off by default. See
    /// [`LockRequest::shared`](crate::LockRequest::shared).
    pub const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, LockRequest, Redlock, settings::Terms};

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn terms(builder: Builder, options: &LockOptions) -> Terms {
        let redlock = builder.nodes([crate::MemoryNode::new()]).build().unwrap();
        redlock.client().settings.terms(options).unwrap()
    }

    type Set<T> = fn(T, u64) -> T;

    /// A setting. Shows it on a client, on options and on a request, and its effect as a number.
    type Row = (&'static str, Option<Set<Builder>>, Set<LockOptions>, Set<LockRequest>, Read);
    type Read = fn(&Terms) -> u64;

    macro_rules! row {
        ($name:ident, $make:expr, $read:expr) => {
            (
                stringify!($name),
                Some(|it, number| it.$name($make(number))),
                |it, number| it.$name($make(number)),
                |it, number| it.$name($make(number)),
                $read,
            )
        };
        (call $name:ident, $make:expr, $read:expr) => {
            (
                stringify!($name),
                None,
                |it, number| it.$name($make(number)),
                |it, number| it.$name($make(number)),
                $read,
            )
        };
    }

    fn rows() -> Vec<Row> {
        fn count(number: u64) -> u32 {
            u32::try_from(number).unwrap()
        }
        fn factor(number: u64) -> f64 {
            f64::from(count(number)) / 100.0
        }
        fn word(number: u64) -> &'static str {
            ["11", "12", "13"][usize::try_from(number - 11).unwrap()]
        }
        vec![
            row!(call label, word, |it| it.label.parse().unwrap()),
            row!(ttl, secs, |it| it.ttl.as_secs()),
            row!(wait, secs, |it| it.wait.as_secs()),
            row!(retry_count, count, |it| it.retry_count.unwrap().into()),
            row!(retry_delay, secs, |it| it.retry_delay.as_secs()),
            row!(retry_jitter, secs, |it| it.retry_jitter.as_secs()),
            row!(clock_drift_factor, factor, |it| (it.clock_drift_factor * 100.0).round() as u64),
            row!(call auto_extend, |number| number % 2 == 1, |it| u64::from(it.auto_extend)),
            row!(call max_hold, secs, |it| it.max_hold.unwrap().as_secs()),
            row!(call permits, count, |it| it.permits.unwrap().into()),
            row!(call min_hold, secs, |it| it.min_hold.as_secs()),
        ]
    }

    /// Three values of which neither the order nor the size says anything; on and off for those that
    /// are on or off.
    const VALUES: [[u64; 3]; 4] = [[11, 12, 13], [13, 12, 11], [12, 13, 11], [12, 11, 12]];

    macro_rules! names {
        ($($group:ident {
            $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)*
        })*) => {
            [$($(stringify!($name),)*)*]
        };
    }

    #[test]
    fn every_setting_has_a_row() {
        let rows: Vec<_> = rows().iter().map(|row| row.0).collect();
        for name in call_settings!(names) {
            assert!(rows.contains(&name), "no row for {name}");
        }
    }

    #[test]
    fn a_shared_setting_stays_shared() {
        let shared = |options: &LockOptions| terms(Redlock::builder(), options).shared;
        let (plain, asked) = (LockOptions::new(), LockOptions::new().shared());
        assert!(!shared(&plain) && shared(&asked));
        assert!(shared(&plain.clone().merge(asked.clone())));
        assert!(shared(&asked.clone().merge(plain)));
        let request = Redlock::in_memory(1).lock("r").shared().options(LockOptions::new());
        assert!(shared(request.options_set()));
    }

    #[test]
    fn a_fenced_setting_stays_fenced() {
        let fenced = |options: &LockOptions| terms(Redlock::builder(), options).fenced;
        let (plain, asked) = (LockOptions::new(), LockOptions::new().fenced());
        assert!(!fenced(&plain) && fenced(&asked));
        assert!(fenced(&plain.clone().merge(asked.clone())));
        assert!(fenced(&asked.clone().merge(plain)));
        let request = Redlock::in_memory(1).lock("r").fenced().options(LockOptions::new());
        assert!(fenced(request.options_set()));
    }

    #[test]
    fn the_later_of_two_settings_wins_and_that_of_the_call_before_that_of_the_client() {
        for (name, client, options, request, read) in rows() {
            let as_read = |number| if name == "auto_extend" { number % 2 } else { number };
            for [first, second, third] in VALUES {
                let built =
                    || client.map_or_else(Redlock::builder, |set| set(Redlock::builder(), first));
                let of = |options: &LockOptions| read(&terms(built(), options));
                let [one, other] =
                    [second, third].map(|number| options(LockOptions::new(), number));
                if client.is_some() {
                    assert_eq!(of(&LockOptions::new()), first, "{name} of the client");
                }
                assert_eq!(of(&one), as_read(second), "{name} of the call");
                assert_eq!(of(&options(one.clone(), third)), as_read(third), "{name} twice");
                assert_eq!(
                    of(&one.clone().merge(LockOptions::new())),
                    as_read(second),
                    "{name} kept"
                );
                assert_eq!(
                    of(&LockOptions::new().merge(one.clone())),
                    as_read(second),
                    "{name} taken"
                );
                assert_eq!(of(&one.clone().merge(other.clone())), as_read(third), "{name} later");

                let redlock = Redlock::in_memory(1);
                let asked = |asked: LockRequest| of(asked.options_set());
                let plain = || redlock.lock("r");
                assert_eq!(asked(request(plain(), second)), as_read(second), "{name} of a request");
                let both = request(request(plain(), second), third);
                assert_eq!(asked(both), as_read(third), "{name} of a request, twice");
                let after = request(plain().options(one.clone()), third);
                assert_eq!(asked(after), as_read(third), "{name} after options");
                let before = request(plain(), second).options(other.clone());
                assert_eq!(asked(before), as_read(third), "{name} before options");
                let beside = request(plain(), second).options(LockOptions::new());
                assert_eq!(asked(beside), as_read(second), "{name} beside options");
            }
        }
    }
}
