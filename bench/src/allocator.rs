//! The system's allocator, counting when asked to.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// What this program allocates with. Counts nothing unless a workload asks: the counters are one
/// cache line for all threads.
#[derive(Debug)]
pub(crate) struct Counting {
    on: AtomicBool,
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Counting {
    /// Not counting yet.
    pub(crate) const fn new() -> Self {
        Self { on: AtomicBool::new(false), calls: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Counts from zero.
    pub(crate) fn start(&self) {
        self.calls.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
        self.on.store(true, Relaxed);
    }

    /// Stops counting: how many allocations there were, growths included, and of how many bytes.
    pub(crate) fn stop(&self) -> (u64, u64) {
        self.on.store(false, Relaxed);
        (self.calls.load(Relaxed), self.bytes.load(Relaxed))
    }

    fn count(&self, bytes: usize) {
        if self.on.load(Relaxed) {
            self.calls.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes as u64, Relaxed);
        }
    }
}

// SAFETY: everything is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller keeps the contract of this very method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
