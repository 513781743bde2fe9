#![no_main]

// A crate of procedural macros cannot be linked: its reader of templates is taken in as it is.
#[allow(dead_code)]
#[path = "../../redlock-macros/src/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|text: &str| template::check_any(text));
