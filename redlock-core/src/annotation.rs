//! What `#[redlock]` expands to.
