//! `LockHandle` as an axum extractor.
