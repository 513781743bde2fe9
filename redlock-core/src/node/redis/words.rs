//! Words of commands, as servers read them. They are written straight into the output buffer, with two
//! allocations less for each command than in redis-rs.

use std::time::Duration;

/// Writes an array of strings, as servers read commands.
pub(super) fn write(out: &mut Vec<u8>, all: &[&[u8]]) {
    head(out, b'*', all.len());
    words(out, all);
}

pub(super) fn words(out: &mut Vec<u8>, all: &[&[u8]]) {
    all.iter().for_each(|it| word(out, it));
}

#[inline]
pub(super) fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    joined(out, [bytes]);
}

/// Writes one string that is made of these parts.
#[inline]
pub(super) fn joined<const PARTS: usize>(out: &mut Vec<u8>, parts: [&[u8]; PARTS]) {
    head(out, b'$', parts.iter().map(|it| it.len()).sum());
    parts.iter().for_each(|it| out.extend_from_slice(it));
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    let digit = |number: usize| b'0' + number as u8;
    // Nearly all words are that short.
    match count {
        0..10 => out.extend_from_slice(&[kind, digit(count), b'\r', b'\n']),
        10..100 => {
            out.extend_from_slice(&[kind, digit(count / 10), digit(count % 10), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(Decimal::of(count as u64).digits());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A number in digits, without an allocation.
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

/// Redis counts in whole milliseconds, and the validity that the client computes from the same
/// duration is exact (rule 2). Durations are rounded up: a key that expires before the validity
/// ends allows two holders, and a key that outlives the validity by part of a millisecond does no
/// harm.
pub(super) fn milliseconds(duration: Duration, least: u64) -> u64 {
    let part = u64::from(duration.subsec_nanos().div_ceil(1_000_000));
    duration.as_secs().saturating_mul(1000).saturating_add(part).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 30_000, u64::MAX] {
            assert_eq!(Decimal::of(number).digits(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_word_has_its_length_in_front() {
        for length in [0, 9, 10, 99, 100, 12_345] {
            let (mut out, text) = (Vec::new(), "x".repeat(length));
            word(&mut out, text.as_bytes());
            assert_eq!(out, format!("${length}\r\n{text}\r\n").as_bytes());
        }
    }

    #[test]
    fn durations_are_rounded_up_to_whole_milliseconds() {
        assert_eq!(milliseconds(Duration::from_millis(150), 1), 150);
        assert_eq!(milliseconds(Duration::from_nanos(150_000_001), 1), 151);
        assert_eq!(milliseconds(Duration::from_nanos(1), 1), 1);
        assert_eq!(milliseconds(Duration::MAX, 1), u64::MAX);
    }
}
