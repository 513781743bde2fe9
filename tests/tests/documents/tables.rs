//! Tables: a row has as many cells as its head. A bar inside a cell ends the cell, in code as well, unless a
//! backslash stands before it.

use super::{all_pages, each_file_of_code, workspace};

/// How many cells a row has.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count()
}

/// The rows whose cells are not those of the first row of their table.
fn uneven<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut head, mut found) = (None, Vec::new());
    for line in lines {
        if !line.starts_with('|') {
            head = None;
            continue;
        }
        if *head.get_or_insert(cells(line)) != cells(line) {
            found.push(line);
        }
    }
    found
}

#[test]
fn every_row_has_the_cells_of_its_table() {
    let mut found = Vec::new();
    for page in all_pages() {
        found.extend(uneven(page.prose()).into_iter().map(|row| format!("{}: {row}", page.path)));
    }
    for folder in ["redlock-core/src", "redlock-macros/src", "redlock-tower/src"] {
        each_file_of_code(&workspace().join(folder), &mut |path, text| {
            let comments = text.lines().map(|line| {
                let line = line.trim_start();
                let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
                comment.unwrap_or_default().trim_start()
            });
            let rows = uneven(comments).into_iter();
            found.extend(rows.map(|row| format!("{}: {row}", path.display())));
        });
    }
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(uneven(["| a | b |", "| `c|d` | e |", "| `c\\|d` | e |"].into_iter()).len(), 1);
}
