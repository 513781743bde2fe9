//! Everything the attribute must work on: each file compiles without a warning, and runs.
//!
//! The warnings are for `cargo clippy --all-targets -- -D warnings`: a newer compiler may have new
//! ones, and must not fail the tests with them.
//!
//! One binary instead of one a case: what is to be seen is that rustc and clippy take the code.
#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use redlock_core::{LockError, LockHandle, Redlock};

mod argument_patterns;
mod async_trait_default_method;
mod async_trait_impl;
mod axum_debug_handler;
mod axum_handler;
mod boxed_future_by_hand;
mod client_forms;
mod const_generics;
mod durations;
mod early_returns;
mod fenced_forms;
mod free_function;
mod generics_and_where;
mod impl_trait_argument;
mod impl_trait_return;
mod inner_attributes;
mod instrument_above;
mod instrument_below;
mod instrument_with_async_trait;
mod lifetimes;
mod lints_stay_quiet;
mod lock_handle;
mod macro_rules_function;
mod map_err_forms;
mod on_reject_forms;
mod options_from_arguments;
mod pool_forms;
mod receivers;
mod renamed_crate;
mod resource_expression;
mod resource_sets;
mod result_aliases;
mod send_futures;
mod shadowed_names;
mod skip_if_held_forms;
mod stacked;
mod template_expressions;
mod template_format_specs;
mod tonic_service;
mod trait_default_method;
mod trait_impl;
mod type_inference;

/// What a service would return when its lock is refused.
#[derive(Debug)]
pub(crate) enum AppError {
    Locked(LockError),
    Other(String),
}

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked(error) => error.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Other(error.to_string())
    }
}

/// A client of its own for each call, because no test here is about waiting.
pub(crate) fn memory() -> Redlock {
    Redlock::in_memory(1)
}

/// The resource of the lock that the caller runs under.
pub(crate) fn locked() -> String {
    LockHandle::current().map_or_else(|| "nothing".into(), |lock| lock.resource().to_owned())
}

/// Every file beside this one is a module of it: a case that is not compiled proves nothing.
#[test]
fn every_case_is_compiled() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pass");
    let this = include_str!("main.rs");
    for file in std::fs::read_dir(here).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(name == "main" || this.contains(&format!("\nmod {name};")), "{name} is no module");
    }
}
