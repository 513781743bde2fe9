//! Pages and comments speak of holders, waiters, clients and nodes, and of no unnamed person.

use super::{all_pages, each_file_of_code, workspace};

const UNNAMED: [&str; 8] =
    ["anybody", "anyone", "everybody", "everyone", "nobody", "somebody", "someone", "whoever"];

/// The first of these words in a text.
fn unnamed(text: &str) -> Option<&'static str> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase);
    words.into_iter().find_map(|word| UNNAMED.into_iter().find(|unnamed| *unnamed == word))
}

#[test]
fn no_text_speaks_of_somebody() {
    let (mut found, mut comments) = (Vec::new(), 0);
    for page in all_pages() {
        found.extend(unnamed(&page.text).map(|word| format!("{word} in {}", page.path)));
    }
    for folder in [
        "redlock-core/src",
        "redlock-macros/src",
        "redlock-tower/src",
        "redlock-cli/src",
        "tests/src",
        "tests/tests",
        "tests/model",
        "tests/races",
        "tests/sim",
        "tests/ui",
        "examples/src",
        "bench/src",
        "xtask/src",
    ] {
        each_file_of_code(&workspace().join(folder), &mut |path, text| {
            for (line, comment) in (1..).zip(text.lines().map(str::trim_start)) {
                if comment.starts_with("//") || comment.starts_with("--") {
                    comments += 1;
                    let word = unnamed(comment);
                    found.extend(word.map(|it| format!("{it} in {}:{line}", path.display())));
                }
            }
        });
    }
    assert!(comments > 5000, "{comments}");
    assert!(found.is_empty(), "name the holder, waiter, client or node: {found:#?}");
}
