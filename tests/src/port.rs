//! Ports for servers.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// Below the ports that operating systems give to outgoing connections: a client that dials such
/// a port while its server is down can be given the very port as its own, connect to itself, and
/// keep the server from coming back.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port on which no program listened a moment ago. Another program may take it before it is used:
/// be ready to ask for another.
pub(crate) fn free() -> u16 {
    // Each process starts elsewhere, so that suites which run side by side rarely meet.
    let start = std::process::id().wrapping_mul(9_973);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} to {} is free", FIRST + COUNT);
}
