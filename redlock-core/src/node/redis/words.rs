//! The words of a command, as servers read them: scripts, keys and numbers.

use std::time::Duration;

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

/// An array of strings, as servers read commands.
pub(super) fn write(out: &mut Vec<u8>, all: &[&[u8]]) {
    head(out, b'*', all.len());
    words(out, all);
}

pub(super) fn words(out: &mut Vec<u8>, all: &[&[u8]]) {
    all.iter().for_each(|it| word(out, it));
}

pub(super) fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(Decimal::of(count as u64).digits());
    out.extend_from_slice(b"\r\n");
}

/// A number in digits, without an allocation: each command has seven of them.
pub(super) struct Decimal {
    digits: [u8; Self::MAX],
    first: usize,
}

impl Decimal {
    /// The digits of [`u64::MAX`].
    const MAX: usize = 20;

    pub(super) fn of(mut number: u64) -> Self {
        let (mut digits, mut first) = ([b'0'; Self::MAX], Self::MAX - 1);
        digits[first] += (number % 10) as u8;
        while number >= 10 {
            number /= 10;
            first -= 1;
            digits[first] += (number % 10) as u8;
        }
        Self { digits, first }
    }

    pub(super) fn digits(&self) -> &[u8] {
        &self.digits[self.first..]
    }
}

/// The milliseconds of a duration, rounded up.
pub(super) fn milliseconds(duration: Duration, least: u64) -> u64 {
    let rounded_up = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded_up).unwrap_or(u64::MAX).max(least)
}
