//! The `#[redlock]` attribute. Use it through redlock-core, which re-exports it.
