//! Snippets of Rust: each is compiled.

use super::{markdown::Page, markdown_in, pages, read};

#[test]
fn every_chapter_is_a_doctest() {
    let tested = read("tests/src/manual.rs");
    for path in markdown_in("docs/manual") {
        let name = path.rsplit('/').next().unwrap();
        let is_index = name == "README.md";
        assert!(is_index || tested.contains(&format!("{name:?};")), "{name}: tests/src/manual.rs");
    }
}

#[test]
fn every_other_page_with_snippets_is_a_doctest() {
    let tested = read("tests/src/lib.rs");
    for page in pages().iter().filter(|page| !page.path.starts_with("docs/manual/")) {
        let has_rust = page.blocks().iter().any(|block| block.kind.starts_with("rust"));
        let included = tested.contains(&format!("include_str!(\"../../{}\")", page.path));
        assert!(!has_rust || included, "{}: tests/src/lib.rs", page.path);
    }
}

/// As a doctest of redlock-tower, it would need a feature of that.
#[test]
fn the_snippet_of_the_layers_is_compiled_in_the_readme() {
    let page = Page::new(read("redlock-tower/README.md"), String::new());
    let blocks = page.blocks();
    let snippets: Vec<_> = blocks.iter().filter(|it| it.kind.starts_with("rust")).collect();
    assert!(!snippets.is_empty());
    for snippet in snippets {
        assert!(read("README.md").contains(&snippet.text), "{}", snippet.text);
    }
}

/// Tests cannot be doctests. Their snippets are in a file that is run.
#[test]
fn a_snippet_that_is_not_compiled_in_its_place_is_part_of_a_file_that_is() {
    let mut found = 0;
    for page in pages().iter().filter(|page| page.path.starts_with("docs/manual/")) {
        for block in page.blocks().iter().filter(|it| it.kind.starts_with("rust")) {
            if !block.kind.contains("ignore") {
                assert!(
                    matches!(block.kind, "rust" | "rust,no_run"),
                    "{}: {}",
                    page.path,
                    block.kind
                );
                continue;
            }
            let file =
                block.before.strip_prefix("<!-- from ").and_then(|it| it.strip_suffix(" -->"));
            let file =
                file.unwrap_or_else(|| panic!("{}: name the file:\n{}", page.path, block.text));
            assert!(
                read(file).contains(&block.text),
                "{}: not in {file}:\n{}",
                page.path,
                block.text
            );
            found += 1;
        }
    }
    assert!(found > 0);
}
