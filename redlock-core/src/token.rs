//! The value that tells the key of an attempt from all other keys (rule 1), and the source of
//! random numbers.

use std::{fmt, time::Duration};

use crate::error::LockError;

/// A token is 160 bits, as in the description of Redlock ("20 bytes from /dev/urandom").
const TOKEN_BYTES: usize = 20;

/// The source of random numbers: the operating system, or a seed in a simulation.
pub(crate) trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes`, or says why it cannot: a lock whose token can be guessed is refused.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String>;
}

/// The operating system's generator. It is asked anew for each token. If numbers were drawn ahead, two clients would
/// have the same ones after a process forks, or after a virtual machine is started twice from one snapshot. Each of the
/// two would delete the keys of the other.
#[derive(Debug)]
pub(crate) struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        getrandom::fill(bytes).map_err(|error| error.to_string())
    }
}

/// The token of an attempt, without the name of the client. Secret (rule 19).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// The token at the beginning of a value.
    pub(crate) fn of_value(value: &str) -> Option<Self> {
        Self::parse(value.split_once('.')?.0)
    }

    /// Reads it as it stands in a value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |it: u8| match it {
            b'0'..=b'9' => Some(it - b'0'),
            b'a'..=b'f' => Some(it - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let mut token = [0; TOKEN_BYTES];
        if pairs.len() != token.len() {
            return None;
        }
        for (byte, [high, low]) in token.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(token))
    }

    /// The token as it stands in a value.
    pub(crate) fn text(self) -> String {
        let mut text = String::with_capacity(2 * TOKEN_BYTES);
        self.write(&mut text);
        text
    }

    fn write(self, text: &mut String) {
        for byte in self.0 {
            let digit = |it: u8| char::from(b"0123456789abcdef"[usize::from(it)]);
            text.push(digit(byte >> 4));
            text.push(digit(byte & 15));
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The value of a fresh attempt: `token.client_name`. Secret as a whole (rule 19).
pub(crate) fn fresh_value(entropy: &dyn Entropy, client_name: &str) -> Result<String, LockError> {
    let mut token = [0; TOKEN_BYTES];
    entropy.fill(&mut token).map_err(|why| {
        LockError::config(format!("no lock without random bytes from the operating system: {why}"))
    })?;
    let mut value = String::with_capacity(2 * TOKEN_BYTES + 1 + client_name.len());
    Token(token).write(&mut value);
    value.push('.');
    value.push_str(client_name);
    Ok(value)
}

/// A random duration from zero to `max`, evenly spread. Zero when there are no random numbers: then
/// attempts are spread less.
pub(crate) fn up_to(entropy: &dyn Entropy, max: Duration) -> Duration {
    let mut bytes = [0; 4];
    if max.is_zero() || entropy.fill(&mut bytes).is_err() {
        return Duration::ZERO;
    }
    let share = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
    Duration::try_from_secs_f64(max.as_secs_f64() * share).map_or(max, |part| part.min(max))
}

/// A name that may stand in a lock's value: printable ASCII without spaces, of bounded length.
pub(crate) fn ascii_name(name: &str) -> String {
    name.chars().take(64).map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn values_are_ascii_and_never_repeat() {
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let value = fresh_value(&OsEntropy, "host:1").unwrap();
            assert!(value.is_ascii());
            let (token, name) = value.split_once('.').unwrap();
            assert_eq!((token.len(), name), (40, "host:1"));
            assert!(seen.insert(value));
        }
    }

    #[test]
    fn a_token_is_read_as_it_is_written_and_printed_nowhere() {
        let value = fresh_value(&OsEntropy, "host.1").unwrap();
        let token = Token::of_value(&value).unwrap();
        assert_eq!(value, format!("{}.host.1", token.text()));
        assert_eq!(Token::parse(&token.text()), Some(token));
        assert_eq!(format!("{token:?}"), "Token(..)");
        for wrong in ["", "0", &"0".repeat(39), &"0".repeat(41), &"G".repeat(40), &"A".repeat(40)] {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Token::of_value("lock"), None, "of another library");
    }

    #[test]
    fn without_randomness_there_is_no_lock() {
        #[derive(Debug)]
        struct Broken;
        impl Entropy for Broken {
            fn fill(&self, _: &mut [u8]) -> Result<(), String> {
                Err("none left".into())
            }
        }
        let error = fresh_value(&Broken, "n").unwrap_err().to_string();
        assert!(error.contains("none left"), "{error}");
        assert_eq!(up_to(&Broken, Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn jitter_stays_in_its_range() {
        #[derive(Debug)]
        struct Highest;
        impl Entropy for Highest {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
                bytes.fill(u8::MAX);
                Ok(())
            }
        }
        for max in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(3), Duration::MAX]
        {
            for _ in 0..100 {
                assert!(up_to(&OsEntropy, max) <= max);
            }
            assert_eq!(up_to(&Highest, max), max);
        }
    }

    #[test]
    fn jitter_is_evenly_spread() {
        #[derive(Debug)]
        struct Half;
        impl Entropy for Half {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
                bytes.fill(0x80);
                Ok(())
            }
        }
        let half = up_to(&Half, Duration::from_secs(3)).as_secs_f64();
        assert!((1.5..1.51).contains(&half), "{half}");
    }

    #[test]
    fn names_become_plain_ascii() {
        assert_eq!(ascii_name("Büro 1\r\n"), "B_ro_1__");
        assert_eq!(ascii_name(&"x".repeat(100)).len(), 64);
    }
}
