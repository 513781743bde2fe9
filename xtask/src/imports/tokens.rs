//! A Rust file as words and marks, without comments and literals.

/// A word, or a mark between words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Mark(&'static str),
}

impl Token {
    pub(super) fn word(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

const MARKS: [&str; 14] = ["::", "{", "}", "(", ")", "[", "]", ";", ",", "#", "*", "!", "<", ">"];

/// The tokens of a file.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = literal_or_comment(rest) {
            rest = after;
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::word(&rest[..end]));
            rest = &rest[end..];
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
            tokens.extend(mark.map(Token::Mark));
            rest = &rest[mark.map_or(first.len_utf8(), str::len)..];
        }
    }
    tokens
}

/// What follows the comment or the literal at the front, if there is one.
fn literal_or_comment(text: &str) -> Option<&str> {
    if text.starts_with("//") {
        return Some(text.find('\n').map_or("", |end| &text[end..]));
    }
    if let Some(inside) = text.strip_prefix("/*") {
        return Some(after_comment(inside));
    }
    let unprefixed = text.trim_start_matches(['b', 'c']);
    if text.len() - unprefixed.len() <= 1 {
        if let Some(inside) = unprefixed.strip_prefix('"') {
            return Some(after_quoted(inside, '"'));
        }
        if let Some(raw) = unprefixed.strip_prefix('r') {
            let quoted = raw.trim_start_matches('#');
            let fence = format!("\"{}", &raw[..raw.len() - quoted.len()]);
            if let Some(inside) = quoted.strip_prefix('"') {
                let end = inside.find(&fence);
                return Some(end.map_or("", |end| &inside[end + fence.len()..]));
            }
        }
    }
    // A lifetime has no closing quote behind its first character.
    let inside = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let is_char = inside.starts_with('\\') || inside.chars().nth(1) == Some('\'');
    is_char.then(|| after_quoted(inside, '\''))
}

fn after_comment(mut text: &str) -> &str {
    let mut depth = 1;
    while depth > 0 {
        let (open, close) = (text.find("/*"), text.find("*/"));
        let Some(close) = close else { return "" };
        match open {
            Some(open) if open < close => {
                depth += 1;
                text = &text[open + 2..];
            }
            _ => {
                depth -= 1;
                text = &text[close + 2..];
            }
        }
    }
    text
}

fn after_quoted(text: &str, quote: char) -> &str {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return &text[at + quote.len_utf8()..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_no_tokens() {
        let text = "a 'x' '\\'' b'\"' \"c // d\" r\"\\\" e 'f: /* g */ h // i";
        let words: Vec<_> = ["a", "e", "f", "h"].into_iter().map(Token::word).collect();
        assert_eq!(tokens(text), words);
        assert_eq!(tokens("bar crab"), [Token::word("bar"), Token::word("crab")]);
    }
}
