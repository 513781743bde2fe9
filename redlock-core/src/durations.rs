//! Durations in words, for configurations and the command line: an integer and a unit. Pure.
//!
//! Annotations read them too. `redlock-macros/src/duration.rs` is a second parser, because a procedural
//! macro cannot depend on the crate that exports it. It refuses a number without a unit.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The duration that a text such as `30s` says. A number without a unit
/// counts milliseconds: an environment variable is always a text.
///
/// # Errors
///
/// What to write instead.
#[doc(hidden)]
pub fn duration_in_words(text: &str) -> Result<Duration, String> {
    let words = text.trim();
    let digits = words.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = words.get(digits.len()..).unwrap_or_default().trim_start();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "{text:?} is not a duration: write a whole number and a unit, such as \"30s\", or \
             milliseconds, such as 30000"
        ));
    }
    let unit = if unit.is_empty() { "ms" } else { unit };
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!(
            "{text:?} is not a duration: its unit must be ms, s, m, h or d, as in \"30s\""
        ));
    };
    let millis = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(*factor));
    millis.map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long for a duration"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_and_plain_numbers_are_durations() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("1500", 1500),
            (" 10 ms ", 10),
        ] {
            assert_eq!(duration_in_words(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_way_to_write_them() {
        for text in ["", "s", "soon", "-3s", "1.5s", "1m30s", "30S", "3 weeks"] {
            let told = duration_in_words(text).unwrap_err();
            assert!(told.contains("\"30s\""), "{text:?}: {told}");
        }
        for text in ["99999999999999999999s", "999999999999999999d"] {
            assert!(duration_in_words(text).unwrap_err().contains("too long"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = duration_in_words(&text);
        }
    }
}
