//! Tests that the fault table names: they exist.

use std::{fs, path::Path};

use super::{read, workspace};

/// All code of a folder.
fn code_in(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            code_in(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            *text += &fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn every_test_of_the_fault_table_exists() {
    let mut code = String::new();
    for folder in ["redlock-core/src", "tests/tests", "examples/tests"] {
        code_in(&workspace().join(folder), &mut code);
    }
    let page = read("docs/reliability.md");
    let table = page.split("\n## ").find(|it| it.starts_with("Faults\n")).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut found = 0;
    for row in rows {
        // Names of tests are in the last column, between backticks.
        let tests = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap();
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let start = format!("fn {}", name.trim_end_matches('*'));
            let exists = match name.ends_with('*') {
                true => code.contains(&start),
                false => code.contains(&format!("{start}(")),
            };
            assert!(exists, "{name}: {row}");
            found += 1;
        }
    }
    assert!(found > 50, "{found}");
}
