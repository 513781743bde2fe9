//! What docs/reliability.md names: the tests of its faults, and its seeded bugs.

use std::fs;

use super::{each_file_of_code, read, workspace};

#[test]
fn every_test_of_the_fault_table_exists() {
    let mut code = String::new();
    for folder in ["redlock-core/src", "tests/tests", "examples/tests"] {
        each_file_of_code(&workspace().join(folder), &mut |_, text| code += text);
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

#[test]
fn the_table_of_seeded_bugs_has_each_of_them_once() {
    let files = fs::read_dir(workspace().join("tests/mutants")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut patches: Vec<_> =
        files.filter_map(|file| file.strip_suffix(".patch").map(str::to_owned)).collect();
    patches.sort_unstable();
    let page = read("docs/reliability.md");
    let table = page.split("\n## ").find(|it| it.starts_with("Seeded bugs\n")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut rows: Vec<_> = rows.map(|row| row.split('`').next().unwrap().to_owned()).collect();
    rows.sort_unstable();
    assert!(!patches.is_empty());
    assert_eq!(rows, patches);
}
