//! Mistakes that a test can switch on, to see that it finds them (`simulation::Bug`).

/// Whether the mistake of this name is switched on: never, unless compiled with
/// `--cfg redlock_sim`.
#[cfg(redlock_sim)]
macro_rules! seeded {
    ($bug:ident) => {
        $crate::simulation::Bug::$bug.is_on()
    };
}

#[cfg(not(redlock_sim))]
macro_rules! seeded {
    ($bug:ident) => {
        false
    };
}
