//! What a client does on its nodes, one operation a file.

pub(crate) mod acquire;
pub(crate) mod extend;
pub(crate) mod inspect;
#[cfg(test)]
mod inspect_tests;
pub(crate) mod release;
pub(crate) mod watch;
