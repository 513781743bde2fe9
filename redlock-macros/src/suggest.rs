//! What a wrong key was probably meant to be.

use crate::keys;

/// What other lock libraries call a key of ours.
const ELSEWHERE: [(&str, &str); 21] = [
    ("key", "resource"),
    ("keys", "resources"),
    ("name", "resource"),
    ("expire", "ttl"),
    ("expiry", "ttl"),
    ("lease", "ttl"),
    ("lease_time", "ttl"),
    ("duration", "ttl"),
    ("timeout", "wait"),
    ("wait_time", "wait"),
    ("acquire_timeout", "wait"),
    ("pool_name", "pool"),
    ("redlock", "client"),
    ("retries", "retry_count"),
    ("guard", "lock"),
    ("handle", "lock"),
    ("auto_renew", "auto_extend"),
    ("renew", "auto_extend"),
    ("fencing", "fenced"),
    ("fencing_token", "fenced"),
    ("token", "fenced"),
];

/// The message for a key that there is not.
pub(crate) fn unknown_key(name: &str) -> String {
    if is_without_renewal(&snake_case(name)) {
        return format!("there is no key `{name}`: write `auto_extend = false`");
    }
    let mut told = match meant(&snake_case(name)) {
        Some(meant) => format!("there is no key `{name}`, did you mean `{meant}`? The keys are"),
        None => format!("there is no key `{name}`: the keys are"),
    };
    for (at, (key, _)) in keys::all().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        told.push_str(&format!("{comma} `{key}`"));
    }
    told.push_str(" and `crate`");
    told
}

/// Whether the name says that the lock does not renew itself.
fn is_without_renewal(name: &str) -> bool {
    ["no_", "not_", "disable_", "without_"].iter().any(|not| {
        name.strip_prefix(not).is_some_and(|what| {
            let what = what.strip_prefix("auto_").unwrap_or(what);
            ["extend", "extension", "renew", "renewal"].contains(&what)
        })
    })
}

fn meant(name: &str) -> Option<&'static str> {
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == name) {
        return Some(ours);
    }
    let (far, key) = keys::all().map(|(key, _)| (distance(name, key), key)).min()?;
    // One slip in a short word, two in a long one; more is another word.
    (far <= 1 + usize::from(name.len() > 4)).then_some(key)
}

/// `retryCount` as `retry_count`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// How many letters must be added, dropped, changed or swapped with their neighbour to get from
/// one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // rows[i][j]: the distance between the first i letters of `from` and the first j of `to`.
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let best = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                    best.min(rows[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_a_camel_and_a_neighbours_word_are_understood() {
        for (name, ours) in [
            ("tll", "ttl"),
            ("resouce", "resource"),
            ("retry_cuont", "retry_count"),
            ("retryCount", "retry_count"),
            ("clockDriftFactor", "clock_drift_factor"),
            ("poolName", "pool"),
            ("leaseTime", "ttl"),
            ("timeout", "wait"),
        ] {
            assert_eq!(meant(&snake_case(name)), Some(ours), "{name}");
        }
    }

    #[test]
    fn a_key_that_says_no_is_told_with_its_value() {
        for name in ["no_auto_extend", "noAutoExtend", "no_renew", "disable_auto_renewal"] {
            assert!(unknown_key(name).ends_with("write `auto_extend = false`"), "{name}");
        }
        assert!(!unknown_key("no_wait").contains("auto_extend = false"));
    }

    #[test]
    fn another_word_is_not_guessed_at() {
        for name in ["blocking", "x", "condition"] {
            assert_eq!(meant(name), None, "{name}");
        }
    }

    #[test]
    fn the_message_lists_every_key() {
        let told = unknown_key("blocking");
        for (key, _) in keys::all() {
            assert!(told.contains(&format!("`{key}`")), "{key}");
        }
    }
}
