//! Tests that the fault table names: they exist.

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
