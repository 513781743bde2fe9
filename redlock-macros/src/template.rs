//! The language of resource templates, over text alone.
//!
//! A template is text with `{expression}` or `{expression:spec}` in it. The spec starts at the
//! first single `:` outside brackets, so `{Kind::of(x)}` has none and `{map["a:b"]:?}` has one.
//! `{{` and `}}` are braces.

use std::str::Chars;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Copied as it is; braces unescaped.
    Text(String),
    /// Evaluated and written.
    Hole {
        /// The source text of the expression, not empty.
        expression: String,
        /// The format spec, without its colon; empty when there is none.
        spec: String,
    },
}

impl Piece {
    /// The text, if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Hole { .. } => None,
        }
    }
}

/// The parts of a template, or what is wrong with it and what to write instead.
///
/// Neighbouring texts are one piece; there are no empty ones.
pub(crate) fn parse(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let position = character(template, rest, at);
        let braces = &rest[at..];
        if let Some(after) = braces.strip_prefix("{{") {
            text.push('{');
            rest = after;
        } else if let Some(after) = braces.strip_prefix("}}") {
            text.push('}');
            rest = after;
        } else if let Some(hole) = braces.strip_prefix('{') {
            let end = closing(hole).ok_or_else(|| {
                format!(
                    "the `{{` at character {position} is never closed: write `}}` after the expression, or `{{{{` for a brace"
                )
            })?;
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(self::hole(&hole[..end], position)?);
            rest = &hole[end + 1..];
        } else {
            return Err(format!(
                "the `}}` at character {position} closes nothing: write `}}}}` for a brace"
            ));
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// What stands between one pair of braces.
fn hole(source: &str, position: usize) -> Result<Piece, String> {
    let (expression, spec) = match expression_end(source) {
        Some(at) => (&source[..at], &source[at + 1..]),
        None => (source, ""),
    };
    let expression = expression.trim();
    if expression.is_empty() {
        return Err(format!(
            "nothing to write at character {position}: name what to write, such as `{{order_id}}`, or `{{{{{source}}}}}` for the text itself"
        ));
    }
    if takes_positions(spec) {
        return Err(format!(
            "the spec `{spec}` at character {position} counts arguments, which a template has not: name a variable, such as `width$`"
        ));
    }
    Ok(Piece::Hole { expression: expression.into(), spec: spec.trim_end().into() })
}

/// Whether a format spec refers to arguments by number, as in `.*` and `1$`.
fn takes_positions(spec: &str) -> bool {
    spec.contains(".*")
        || spec.match_indices('$').any(|(at, _)| {
            let name = spec[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            let name = &spec[name.len()..at];
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
        })
}

/// Where the brace is that ends a hole, in what follows its opening brace.
fn closing(source: &str) -> Option<usize> {
    let end = expression_end(source)?;
    let Some(spec) = source[end..].strip_prefix(':') else { return Some(end) };
    // In a spec nothing is quoted or in brackets, and even a brace may fill: `{id:}>5}`.
    let mut chars = spec.chars();
    let fill = chars.next().filter(|_| chars.as_str().starts_with(['<', '^', '>']));
    let start = source.len() - spec.len() + fill.map_or(0, char::len_utf8);
    source[start..].find('}').map(|at| start + at)
}

/// Where the colon is that starts a spec, or the brace that ends the hole.
fn expression_end(source: &str) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    let mut path_until = 0;
    outside_quotes(source, |at, c, rest| {
        match c {
            '{' => braces += 1,
            '}' if braces == 0 => return Some(at),
            '}' => braces -= 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ':' if braces == 0 && brackets == 0 && at >= path_until => {
                if !rest.starts_with(':') {
                    return Some(at);
                }
                path_until = at + 2;
            }
            _ => {}
        }
        None
    })
}

/// Shows `look` each character that is not inside a string or character literal, with its place
/// and what follows, until it answers.
fn outside_quotes<T>(
    source: &str,
    mut look: impl FnMut(usize, char, &str) -> Option<T>,
) -> Option<T> {
    let mut chars = source.chars();
    let mut word = false;
    loop {
        let at = source.len() - chars.as_str().len();
        let c = chars.next()?;
        match c {
            '"' => skip_string(&mut chars),
            'r' if !word && is_raw_string(chars.as_str()) => skip_raw_string(&mut chars),
            '\'' => skip_character(&mut chars),
            _ => {
                if let Some(found) = look(at, c, chars.as_str()) {
                    return Some(found);
                }
            }
        }
        // The prefix of `br".."` and `cr".."` is no word of its own.
        let prefix = matches!(c, 'b' | 'c') && !word;
        word = !prefix && (c.is_alphanumeric() || c == '_');
    }
}

fn skip_string(chars: &mut Chars<'_>) {
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '"' => return,
            _ => {}
        }
    }
}

fn is_raw_string(after_r: &str) -> bool {
    after_r.trim_start_matches('#').starts_with('"')
}

fn skip_raw_string(chars: &mut Chars<'_>) {
    let source = chars.as_str();
    let hashes = source.len() - source.trim_start_matches('#').len();
    let end = format!("\"{}", &source[..hashes]);
    let inside = &source[hashes + 1..];
    let after = inside.find(&end).map_or("", |at| &inside[at + end.len()..]);
    *chars = after.chars();
}

/// Skips a character literal behind its apostrophe. A lifetime has nothing to skip.
fn skip_character(chars: &mut Chars<'_>) {
    let mut ahead = chars.clone();
    match ahead.next() {
        Some('\\') => {
            ahead.next();
            if ahead.by_ref().any(|c| c == '\'') {
                *chars = ahead;
            }
        }
        Some(_) if ahead.next() == Some('\'') => *chars = ahead,
        _ => {}
    }
}

/// Which character of the template, counted from one, is the one at `at` in `rest`.
fn character(template: &str, rest: &str, at: usize) -> usize {
    template[..template.len() - rest.len() + at].chars().count() + 1
}

/// Checks what must be true of any text.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_any(template: &str) {
    match parse(template) {
        Ok(pieces) => {
            let text: usize = pieces.iter().filter_map(Piece::text).map(str::len).sum();
            assert!(text <= template.len(), "{template:?}");
            for pair in pieces.windows(2) {
                let both = matches!(pair, [Piece::Text(_), Piece::Text(_)]);
                assert!(!both, "neighbouring texts: {template:?}");
            }
            for piece in pieces {
                match piece {
                    Piece::Text(text) => assert!(!text.is_empty(), "{template:?}"),
                    Piece::Hole { expression, .. } => {
                        assert!(!expression.is_empty(), "{template:?}")
                    }
                }
            }
        }
        Err(told) => assert!(!told.is_empty(), "{template:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn hole(expression: &str, spec: &str) -> Piece {
        Piece::Hole { expression: expression.into(), spec: spec.into() }
    }

    #[test]
    fn a_template_is_text_and_holes() {
        for (template, expected) in [
            ("", vec![]),
            ("nightly", vec![text("nightly")]),
            ("order:{id}", vec![text("order:"), hole("id", "")]),
            ("{a}{b}", vec![hole("a", ""), hole("b", "")]),
            ("{ id }", vec![hole("id", "")]),
            (
                "stock:{item.sku}:{n}",
                vec![text("stock:"), hole("item.sku", ""), text(":"), hole("n", "")],
            ),
            ("{{{id}}}", vec![text("{"), hole("id", ""), text("}")]),
            ("a{{b}}c", vec![text("a{b}c")]),
            ("ключ:{id}", vec![text("ключ:"), hole("id", "")]),
        ] {
            assert_eq!(parse(template), Ok(expected), "{template}");
        }
    }

    #[test]
    fn the_spec_starts_at_the_first_single_colon_outside_brackets() {
        for (template, expected) in [
            ("{id:08}", hole("id", "08")),
            ("{id:?}", hole("id", "?")),
            ("{id:>width$}", hole("id", ">width$")),
            ("{id:>w1$.p2$}", hole("id", ">w1$.p2$")),
            ("{x::<T>::y(z)}", hole("x::<T>::y(z)", "")),
            ("{Kind::Of:?}", hole("Kind::Of", "?")),
            ("{f(|x: u8| x):x}", hole("f(|x: u8| x)", "x")),
            ("{map[\"a:b\"]}", hole("map[\"a:b\"]", "")),
            ("{m.get(':'):?}", hole("m.get(':')", "?")),
            ("{id::<0>}", hole("id::<0>", "")),
            ("{\"a:b\"}", hole("\"a:b\"", "")),
            ("{x:}", hole("x", "")),
        ] {
            assert_eq!(parse(template), Ok(vec![expected]), "{template}");
        }
    }

    #[test]
    fn braces_inside_an_expression_belong_to_it() {
        for (template, expected) in [
            ("{ {1} }", hole("{1}", "")),
            ("{if a {1} else {2}}", hole("if a {1} else {2}", "")),
            ("{P { x: 1 }.x:03}", hole("P { x: 1 }.x", "03")),
            ("{f(\"}\")}", hole("f(\"}\")", "")),
            ("{f(\"\\\"}\")}", hole("f(\"\\\"}\")", "")),
            ("{f(r#\"}\"\"#)}", hole("f(r#\"}\"\"#)", "")),
            ("{f(br\"}\")}", hole("f(br\"}\")", "")),
            ("{f('}')}", hole("f('}')", "")),
            ("{f('\\'', '}')}", hole("f('\\'', '}')", "")),
            ("{f::<'static>(\"}\")}", hole("f::<'static>(\"}\")", "")),
        ] {
            assert_eq!(parse(template), Ok(vec![expected]), "{template}");
        }
    }

    #[test]
    fn any_character_fills() {
        for fill in ['"', '\'', '}', '{', '(', 'r', '锁'] {
            for align in ['<', '^', '>'] {
                let spec = format!("{fill}{align}5");
                let expected = vec![text("a"), hole("id", &spec), text("b")];
                assert_eq!(parse(&format!("a{{id:{spec}}}b")), Ok(expected), "{spec}");
            }
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place_and_its_fix() {
        for (template, place, fix) in [
            ("order:{id", "character 7", "write `}` after the expression, or `{{`"),
            ("order:{", "character 7", "write `}` after the expression, or `{{`"),
            ("order:id}", "character 9", "write `}}`"),
            ("ключ:}", "character 6", "write `}}`"),
            ("{a} {}", "character 5", "such as `{order_id}`"),
            ("{ }", "character 1", "such as `{order_id}`"),
            ("{:?}", "character 1", "such as `{order_id}`"),
            ("{id:.*}", "character 1", "name a variable"),
            ("{id:>1$}", "character 1", "name a variable"),
            ("{f(\"}", "character 1", "write `}` after the expression"),
        ] {
            let told = parse(template).unwrap_err();
            assert!(told.contains(place), "{template:?}: {told}");
            assert!(told.contains(fix), "{template:?}: {told}");
        }
    }

    /// What is cut out of the corpus and put together is read, or refused in words.
    #[test]
    fn any_text_is_a_template_or_refused() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/templates");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        files.sort();
        assert!(files.len() >= 5);
        for first in &files {
            for second in &files {
                for cut in first.char_indices().map(|(at, _)| at).chain([first.len()]) {
                    check_any(&format!("{}{second}", &first[..cut]));
                    check_any(&format!("{second}{}", &first[cut..]));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn escaped_text_comes_back_as_it_was(plain in ".{0,40}") {
            let escaped = plain.replace('{', "{{").replace('}', "}}");
            let expected = if plain.is_empty() { vec![] } else { vec![Piece::Text(plain)] };
            prop_assert_eq!(parse(&escaped), Ok(expected));
        }

        #[test]
        fn holes_come_back_in_their_order(
            parts in prop::collection::vec(
                ("[^{}]{1,5}", "[a-z][a-z_.]{0,8}(\\[0\\]|\\(\\)|::x)?", "[0-9x?#]{0,3}"), 0..6,
            ),
        ) {
            let mut template = String::new();
            let mut expected = Vec::new();
            for (before, expression, spec) in parts {
                let colon = if spec.is_empty() { "" } else { ":" };
                template.push_str(&format!("{before}{{{expression}{colon}{spec}}}"));
                expected.push(Piece::Text(before));
                expected.push(Piece::Hole { expression, spec });
            }
            prop_assert_eq!(parse(&template), Ok(expected));
        }

        #[test]
        fn no_template_panics(template in "[{}:'\"\\\\a-c#r$.*0-9 é]{0,24}") {
            let _ = parse(&template);
        }
    }
}
