#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redlock_core::fuzz::outbox(bytes));
