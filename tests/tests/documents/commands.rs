//! Commands of cargo that a document names: they exist. `examples/tests/manual.rs` runs the others.

use super::{all_pages, read, workspace};

/// The words behind each occurrence of `start`, up to the end of the line or of the code.
fn commands<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    text.split(start).skip(1).map(|rest| {
        let end = rest.find(['`', '\n', '#', ')', ';']).unwrap_or(rest.len());
        rest[..end].split_whitespace().collect()
    })
}

fn after<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|it| *it == flag)?;
    words.get(at + 1).copied()
}

#[test]
fn every_command_of_cargo_that_is_named_exists() {
    let tasks = read("xtask/src/main.rs");
    let folders = [
        "redlock-core",
        "redlock-macros",
        "redlock-tower",
        "redlock-cli",
        "tests",
        "tests/model",
        "tests/ui",
        "examples",
    ];
    let (mut wrong, mut found) = (Vec::new(), 0);
    for page in all_pages() {
        for words in commands(&page.text, "cargo xtask ") {
            let name = words.first().copied().unwrap_or_default().trim_matches(['.', ',', ':']);
            found += 1;
            if !tasks.contains(&format!("name: {name:?}")) {
                wrong.push(format!("{}: cargo xtask {name}", page.path));
            }
        }
        for words in commands(&page.text, "cargo run ").chain(commands(&page.text, "cargo test ")) {
            found += 1;
            if let Some(name) = after(&words, "--bin")
                && name != "NAME"
                && !["examples", "tests"]
                    .iter()
                    .any(|folder| workspace().join(format!("{folder}/src/bin/{name}.rs")).is_file())
            {
                wrong.push(format!("{}: --bin {name}", page.path));
            }
            if let Some(name) = after(&words, "--test")
                && !folders.iter().any(|folder| {
                    let tests = workspace().join(folder).join("tests");
                    tests.join(format!("{name}.rs")).is_file() || tests.join(name).is_dir()
                })
            {
                wrong.push(format!("{}: --test {name}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(found > 30, "{found}");
}
