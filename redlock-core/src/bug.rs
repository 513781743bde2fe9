//! Mistakes that the suites have to find: what keeps the checkers honest. Without
//! `--cfg redlock_sim` none of them exists, and asking for one is a constant `false`.

/// One mistake, named by what goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(redlock_sim), allow(dead_code))]
#[allow(missing_docs, unreachable_pub)] // public in the simulation alone
#[repr(u8)]
pub enum Bug {
    QuorumOffByOne = 1,
    ValidityNotCompared,
    DriftLeftOut,
    ClockStartedLate,
    NoReleaseAfterFailure,
    ReleaseWithoutCompare,
    ExtendOverAcquiredOnly,
    ExtendDeletesOnFailure,
    ResurrectWithoutQuorum,
    TokenReused,
    ExtendShortens,
    HealWithoutCleanUp,
    CleanUpOnce,
    QuarantineSkipped,
    FrozenClockBelieved,
    ShortFreezeBelieved,
    SetBackBelieved,
    RenewalOutlivesRelease,
    ShutdownReleasesFirst,
    OldHandleStaysValid,
    HandOverUnconfirmed,
    HandOverToGone,
    HandOverDuringShutdown,
    LostWakeUp,
    NeverLetsOthersIn,
    WrongPlaces,
    SuccessorNotWoken,
    ReleaseOvertakesSet,
    WatchNotRearmed,
    RenewalsBehindPolls,
    DeadFrontKept,
    NextNotTold,
    TurnOfGoneKept,
    EntryLeftBehind,
    EntryNotRefreshed,
    OwnOrderOfNodes,
    BargesIn,
    JoinAfterLeave,
    UnsentDeleteForgotten,
    SitsOutReadsFree,
    NaiveMaximum,
    ConfirmAsksNothing,
    ConfirmAsksHolderOnly,
    ConfirmsFirstOnly,
    LateGrantCounted,
    NoClockFloor,
    HandOverTooLate,
    OldRangeUsed,
}

#[cfg(redlock_sim)]
mod planted {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// None was chosen yet.
    const UNSET: u8 = u8::MAX;
    static PLANTED: AtomicU8 = AtomicU8::new(UNSET);

    impl Bug {
        /// All of them.
        pub const ALL: [Self; 48] = [
            Self::QuorumOffByOne,
            Self::ValidityNotCompared,
            Self::DriftLeftOut,
            Self::ClockStartedLate,
            Self::NoReleaseAfterFailure,
            Self::ReleaseWithoutCompare,
            Self::ExtendOverAcquiredOnly,
            Self::ExtendDeletesOnFailure,
            Self::ResurrectWithoutQuorum,
            Self::TokenReused,
            Self::ExtendShortens,
            Self::HealWithoutCleanUp,
            Self::CleanUpOnce,
            Self::QuarantineSkipped,
            Self::FrozenClockBelieved,
            Self::ShortFreezeBelieved,
            Self::SetBackBelieved,
            Self::RenewalOutlivesRelease,
            Self::ShutdownReleasesFirst,
            Self::OldHandleStaysValid,
            Self::HandOverUnconfirmed,
            Self::HandOverToGone,
            Self::HandOverDuringShutdown,
            Self::LostWakeUp,
            Self::NeverLetsOthersIn,
            Self::WrongPlaces,
            Self::SuccessorNotWoken,
            Self::ReleaseOvertakesSet,
            Self::WatchNotRearmed,
            Self::RenewalsBehindPolls,
            Self::DeadFrontKept,
            Self::NextNotTold,
            Self::TurnOfGoneKept,
            Self::EntryLeftBehind,
            Self::EntryNotRefreshed,
            Self::OwnOrderOfNodes,
            Self::BargesIn,
            Self::JoinAfterLeave,
            Self::UnsentDeleteForgotten,
            Self::SitsOutReadsFree,
            Self::NaiveMaximum,
            Self::ConfirmAsksNothing,
            Self::ConfirmAsksHolderOnly,
            Self::ConfirmsFirstOnly,
            Self::LateGrantCounted,
            Self::NoClockFloor,
            Self::HandOverTooLate,
            Self::OldRangeUsed,
        ];

        /// The one with this name, as it is written here.
        #[must_use]
        pub fn named(name: &str) -> Option<Self> {
            Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
        }
    }

    /// Makes this mistake from now on, in the whole process.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        let planted = match PLANTED.load(Ordering::Relaxed) {
            UNSET => {
                // The suites other than the simulation are told by their surroundings.
                plant(std::env::var("REDLOCK_BUG").ok().and_then(|name| Bug::named(&name)));
                PLANTED.load(Ordering::Relaxed)
            }
            planted => planted,
        };
        planted == bug as u8
    }
}

#[cfg(redlock_sim)]
pub use planted::plant;
#[cfg(redlock_sim)]
pub(crate) use planted::planted;

/// Whether this mistake is to be made: never.
#[cfg(not(redlock_sim))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
