//! The events in the chapter on operations are those in the code.

use std::{fs, path::Path};

use super::{markdown::Page, read, workspace};

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// An event: its level, and what its message is or begins with.
type Event = (String, String);

/// The crates that tell events.
fn sources() -> Vec<String> {
    let mut texts = Vec::new();
    for name in ["redlock-core", "redlock-macros", "redlock-tower"] {
        collect(&workspace().join(name).join("src"), &mut texts);
    }
    texts
}

fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, texts);
        } else if path.extension().is_some_and(|it| it == "rs") {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// The text literals of the arguments that begin here, up to the closing parenthesis.
fn literals(text: &str) -> Vec<String> {
    let (mut literals, mut depth) = (Vec::new(), 1);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            '"' => {
                let mut literal = String::new();
                while let Some(char) = chars.next() {
                    match char {
                        '"' => break,
                        // A line that goes on.
                        '\\' if chars.as_str().starts_with('\n') => {
                            let rest = chars.as_str().trim_start();
                            chars = rest.chars();
                        }
                        char => literal.push(char),
                    }
                }
                literals.push(literal);
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    literals
}

fn events_of(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for level in LEVELS {
        for part in text.split(&format!("tracing::{level}!(")).skip(1) {
            // The message comes last.
            if let Some(message) = literals(part).pop() {
                events.push((level.to_owned(), message));
            }
        }
    }
    events
}

fn spans_of(text: &str) -> Vec<String> {
    let calls = text.split("_span!(").skip(1);
    calls.filter_map(|part| literals(part).into_iter().next()).collect()
}

/// The rows of the table: the level, and what the message begins with.
fn listed(page: &Page) -> Vec<Event> {
    let rows = page.prose().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let level = cells.next()?.to_lowercase();
        let message = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        LEVELS.contains(&&*level).then(|| (level, message.to_owned()))
    });
    rows.collect()
}

#[test]
fn the_list_of_events_is_complete_and_has_no_others() {
    let page = Page::new(read("docs/manual/operations.md"), String::new());
    let listed = listed(&page);
    let sources = sources();
    let told: Vec<Event> = sources.iter().flat_map(|text| events_of(text)).collect();
    assert!(told.len() > 20, "{told:#?}");
    let is = |(level, message): &Event, (listed, start): &Event| {
        level == listed && message.starts_with(start)
    };
    let missing: Vec<_> =
        told.iter().filter(|event| !listed.iter().any(|row| is(event, row))).collect();
    assert!(missing.is_empty(), "not in operations.md: {missing:#?}");
    let gone: Vec<_> =
        listed.iter().filter(|row| !told.iter().any(|event| is(event, row))).collect();
    assert!(gone.is_empty(), "in operations.md, and in no code: {gone:#?}");
    let spans: Vec<_> = sources.iter().flat_map(|text| spans_of(text)).collect();
    assert!(spans.len() >= 2, "{spans:?}");
    for span in spans {
        assert!(page.text.contains(&format!("`{span}`")), "not in operations.md: the span {span}");
    }
}

#[test]
fn an_event_is_read_from_the_code() {
    let text = r#"
        tracing::warn!(node = %error.node, kind = f(x), "node {}: \
             down", y);
        tracing::debug!("a (b");
        tracing::info_span!("s.t", r);
    "#;
    let event = |level: &str, message: &str| (level.to_owned(), message.to_owned());
    assert_eq!(events_of(text), [event("warn", "node {}: down"), event("debug", "a (b")]);
    assert_eq!(spans_of(text), ["s.t"]);
}
