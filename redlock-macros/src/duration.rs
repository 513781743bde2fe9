//! Durations in words: an integer and a unit.
//!
//! `redlock-core/src/durations.rs` reads the same words for configurations and the command line. This crate
//! cannot use it, because redlock-core depends on this crate.

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The milliseconds that a text such as `30s` says, or what to write instead.
pub(crate) fn millis(words: &str) -> Result<u64, String> {
    let words = words.trim();
    let digits = words.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = words[digits.len()..].trim_start();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "{words:?} is not a duration: write one whole number and one unit, such as \"30s\""
        ));
    }
    if unit.is_empty() {
        return Err(format!(
            "{words:?} has no unit: write \"{words}ms\", \"{words}s\", \"{words}m\", \"{words}h\" or \"{words}d\""
        ));
    }
    let Some(factor) = factor(unit) else {
        return Err(format!("{unit:?} is not a unit: write `ms`, `s`, `m`, `h` or `d`"));
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(factor))
        .ok_or_else(|| format!("{words:?} is too long: it must fit 64 bits of milliseconds"))
}

/// Whether this is the name of a unit.
pub(crate) fn is_unit(name: &str) -> bool {
    factor(name).is_some()
}

/// The milliseconds in one of a unit.
fn factor(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_counts_in_milliseconds() {
        for (words, expected) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0s", 0),
            (" 10 ms ", 10),
        ] {
            assert_eq!(millis(words), Ok(expected), "{words}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_told_what_is() {
        for (words, fix) in [
            ("30", "\"30s\""),
            ("", "one whole number"),
            ("s", "one whole number"),
            ("soon", "one whole number"),
            ("-3s", "one whole number"),
            ("1.5s", "one whole number"),
            ("1m30s", "one whole number"),
            ("3 weeks", "`ms`, `s`, `m`, `h` or `d`"),
            ("30S", "`ms`, `s`, `m`, `h` or `d`"),
            ("99999999999999999999s", "too long"),
            ("999999999999999999d", "too long"),
        ] {
            let told = millis(words).unwrap_err();
            assert!(told.contains(fix), "{words:?}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_count_of_any_unit_is_that_product(
            count in 0..=u64::from(u32::MAX), unit in 0..UNITS.len(),
        ) {
            let (name, factor) = UNITS[unit];
            prop_assert_eq!(millis(&format!("{count}{name}")), Ok(count * factor));
        }

        #[test]
        fn no_text_panics(words in ".*") {
            let _ = millis(&words);
        }
    }
}
