//! Everything is said once.

use std::collections::BTreeMap;

use super::{markdown::without_code, pages};

/// Shorter sentences may well be the same.
const WORDS: usize = 10;

/// The sentences of a text, as words alone.
fn sentences(text: &str) -> Vec<String> {
    let text = without_code(text).replace('|', ". ");
    let ends =
        text.split(". ").flat_map(|part| part.split(".\n")).flat_map(|part| part.split("\n\n"));
    let words = ends.map(|sentence| {
        let words = sentence.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>()
    });
    words.filter(|it| it.len() >= WORDS).map(|it| it.join(" ")).collect()
}

#[test]
fn no_page_repeats_a_sentence_of_another_page() {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in pages().iter().filter(|page| page.path != "CHANGELOG.md") {
        let prose: Vec<_> = page.prose().collect();
        for sentence in sentences(&prose.join("\n")) {
            said.entry(sentence).or_default().push(page.path.clone());
        }
    }
    said.retain(|_, pages| {
        pages.dedup();
        pages.len() > 1
    });
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn sentences_are_compared_by_their_words() {
    let one = "It *is* one two three four five six seven eight.\nAnother one.";
    let other = "Yes. It is one two\nthree four five six seven eight. No";
    assert_eq!(sentences(one)[..1], sentences(other)[..]);
}
