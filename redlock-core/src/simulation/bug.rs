//! Mistakes that can be switched on, one at a time: a suite that finds none of them proves
//! nothing by finding nothing.

use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// A mistake that this library could make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name on a command line and in `REDLOCK_BUG`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

bugs! {
    /// Half of the nodes are a quorum.
    QuorumOffByOne = "quorum-off-by-one",
    /// A quorum counts even when its validity is over.
    ValidityNotCompared = "validity-not-compared",
    /// A lock is relied on for its whole ttl.
    DriftLeftOut = "drift-left-out",
    /// The validity of a new lock starts with the last answer.
    ClockStartedLate = "clock-started-late",
    /// An attempt that failed leaves its keys.
    NoReleaseAfterFailure = "no-release-after-failure",
    /// A release deletes whatever is there.
    ReleaseWithoutCompare = "release-without-compare",
    /// A renewal needs a quorum of only those nodes that granted the lock.
    ExtendOverAcquired = "extend-over-acquired",
    /// A renewal that failed deletes the keys.
    ExtendDeletesOnFailure = "extend-deletes-on-failure",
    /// A renewal that found the key missing sets it again whatever the other nodes say.
    ResurrectWithoutQuorum = "resurrect-without-quorum",
    /// All attempts of one call have the same token.
    TokenReused = "token-reused",
    /// A renewal sets the expiry even when less is left then.
    RenewalShortens = "renewal-shortens",
    /// A release does not go to the nodes that were healed.
    HealWithoutCleanUp = "heal-without-clean-up",
    /// A delete that overtook its SET on a newer connection is not repeated.
    CleanUpOnce = "clean-up-once",
    /// A node that restarted votes at once.
    QuarantineSkipped = "quarantine-skipped",
    /// A wall clock that has run ahead is ignored.
    FrozenClockBelieved = "frozen-clock-believed",
    /// A hold that was released is renewed once more.
    RenewalOutlivesRelease = "renewal-outlives-release",
    /// Shutdown releases the locks of bodies that still run.
    ShutdownBeforeBody = "shutdown-before-body",
}

/// No bug, and not looked for in the environment either.
const NONE: u8 = u8::MAX;
/// Not looked for in the environment yet.
const UNKNOWN: u8 = u8::MAX - 1;

static ON: AtomicU8 = AtomicU8::new(UNKNOWN);

impl Bug {
    /// Switches one bug on for this process, or all off.
    pub fn switch(bug: Option<Self>) {
        ON.store(bug.map_or(NONE, |bug| bug as u8), Ordering::Relaxed);
    }

    /// The bug of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }

    /// Whether this bug is switched on, by [`switch`](Self::switch) or by `REDLOCK_BUG`.
    #[must_use]
    pub fn is_on(self) -> bool {
        let mut on = ON.load(Ordering::Relaxed);
        if on == UNKNOWN {
            Self::switch(std::env::var("REDLOCK_BUG").ok().and_then(|name| Self::named(&name)));
            on = ON.load(Ordering::Relaxed);
        }
        on == self as u8
    }
}
