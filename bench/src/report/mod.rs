//! What a run leaves behind: tables, a file for programs, and plots.

mod chart;
mod files;
mod plots;
mod table;
mod targets;

pub(crate) use files::{About, write};
pub(crate) use table::{results as results_table, targets as targets_table};
