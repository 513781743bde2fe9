//! Fencing tokens: what makes an overlap of two holders harmless.
//!
//! A lease cannot stop a holder that is paused from writing late. A token can: it is a number that
//! grows with every holder of a resource, the write carries it, and the store refuses a number that
//! is smaller than one it has seen. [`sql`] does that for PostgreSQL and SQLite.

pub mod sql;
