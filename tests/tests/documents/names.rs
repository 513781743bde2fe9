//! What the architecture names is there.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{Page, each_file_of_code, read, workspace};

/// The parts of a text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The identifiers in a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with(|first: char| first.is_alphabetic() || first == '_'))
}

fn is_path(name: &str) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "*_-./".contains(it);
    let ends = [".rs", ".lua", ".md", "/"].iter().any(|end| name.ends_with(end));
    ends && name.chars().all(is_plain)
}

/// Collects the files and folders below `folder`, as `/path/from/there` and `/path/from/there/`.
fn collect(folder: &Path, before: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{before}/{name}");
        if !entry.file_type().unwrap().is_dir() {
            paths.push(path);
        } else if name != "target" && name != ".git" {
            collect(&entry.path(), &path, paths);
            paths.push(path + "/");
        }
    }
}

#[test]
fn every_name_in_the_architecture_is_that_of_a_file_or_in_the_code() {
    let (mut paths, mut code) = (Vec::new(), String::new());
    collect(&workspace(), "", &mut paths);
    each_file_of_code(&workspace(), &mut |_, text| code += text);
    let known: BTreeSet<_> = identifiers(&code).collect();
    // A name that ends like this is the beginning of several.
    let is_known = |name: &str| {
        known.contains(name) || name.ends_with('_') && known.iter().any(|it| it.starts_with(name))
    };
    let page = Page::new(read("ARCHITECTURE.md"), "ARCHITECTURE.md".to_owned());
    let (mut unknown, mut found) = (Vec::new(), 0);
    for name in page.prose().flat_map(quoted) {
        found += 1;
        let exists = if is_path(name) {
            // A star stands for the beginning of several names.
            let end = name.strip_prefix('*').map_or(format!("/{name}"), str::to_owned);
            paths.iter().any(|path| path.ends_with(&end))
        } else {
            identifiers(name).all(is_known)
        };
        if !exists {
            unknown.push(name);
        }
    }
    assert!(found > 200, "{found}");
    assert!(unknown.is_empty(), "neither a file nor in the code: {unknown:#?}");
}
