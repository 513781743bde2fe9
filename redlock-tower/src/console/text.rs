//! Names and times as text of an HTML page.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

/// A name that another program has chosen, as text of HTML. What a reader would not see, or what would
/// turn the text around it, is written out.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                char if is_unseen(char) => write!(f, "{}", char.escape_unicode())?,
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Control characters, line separators, and marks without a width, those that change the direction of a
/// text among them.
fn is_unseen(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A span for a reader: as much as matters of it.
pub(super) fn time(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span < Duration::from_millis(1) => "under 1 ms".to_owned(),
        0 => format!("{} ms", span.as_millis()),
        1..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_markup_and_what_cannot_be_seen_is_written_out() {
        for (name, text) in [
            ("invoice:42", "invoice:42"),
            ("<script>", "&lt;script&gt;"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("&lt;", "&amp;lt;"),
            ("a\r\ndata: b\0", "a\\u{d}\\u{a}data: b\\u{0}"),
            ("\u{202e}gpj", "\\u{202e}gpj"),
            ("a\u{200b}b\u{2029}c\u{85}", "a\\u{200b}b\\u{2029}c\\u{85}"),
            ("é 锁 🔒", "é 锁 🔒"),
        ] {
            assert_eq!(Escaped(name).to_string(), text, "{name:?}");
        }
    }

    #[test]
    fn times_show_as_much_as_matters() {
        for (ms, text) in [
            (0, "under 1 ms"),
            (1, "1 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (59_999, "59 s"),
            (60_000, "1 min 0 s"),
            (3_599_000, "59 min 59 s"),
            (3_600_000, "1 h 0 min"),
            (86_399_000, "23 h 59 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(time(Duration::from_millis(ms)), text);
        }
    }
}
