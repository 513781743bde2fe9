//! The clock that leases are judged by (rule 2), injected so that tests and simulations own time.

pub(crate) use self::{
    injected::{Clock, sleep_until},
    reading::{Moment, Reading},
    system::SystemClock,
    tokio::{TokioClock, wall_at},
};

mod injected;
#[cfg(test)]
pub(crate) mod manual;
pub(crate) mod missed;
mod origin;
mod reading;
#[cfg(redlock_sim)]
pub(crate) mod simulated;
mod system;
mod tokio;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clocks_of_one_process_agree() {
        let system = SystemClock.now();
        let tokio = TokioClock.now();
        assert!(tokio.since(system) < Duration::from_secs(60), "{system:?} {tokio:?}");
        assert!(SystemClock.now() >= system && TokioClock.now() >= tokio);
        assert!(system.since(tokio) < Duration::from_secs(60), "{system:?} {tokio:?}");
    }
}
