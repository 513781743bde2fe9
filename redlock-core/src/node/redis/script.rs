//! Scripts, and how they are called.

use super::words::{Decimal, head, words};

/// A script and the name under which servers remember it.
pub(super) struct Script {
    pub(super) source: &'static str,
    sha1: String,
}

impl Script {
    pub(super) fn new(source: &'static str) -> Self {
        Self { source, sha1: redis::Script::new(source).get_hash().to_owned() }
    }
}

/// How a script is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// By its hash: `EVALSHA`.
    ByHash,
    /// With its source, which the server then remembers: the first time, and after `NOSCRIPT`
    /// (rule 17). One round trip, where `SCRIPT LOAD` and a second `EVALSHA` take two.
    InFull,
}

/// `EVALSHA hash keys`, followed by this many words.
pub(super) fn call(script: &Script, how: How, keys: usize, arguments: usize, out: &mut Vec<u8>) {
    let (verb, script): (&[u8], _) = match how {
        How::ByHash => (b"EVALSHA", script.sha1.as_str()),
        How::InFull => (b"EVAL", script.source),
    };
    head(out, b'*', 3 + keys + arguments);
    words(out, &[verb, script.as_bytes(), Decimal::of(keys as u64).digits()]);
}
