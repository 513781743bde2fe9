//! The documents as one set: links lead somewhere, and back; commands, events, files and names in the code that
//! are named exist; what one page says no other page repeats; tables are even; figures are those of the last
//! benchmark; pages and comments name what they speak of.

mod commands;
mod events;
mod figures;
mod links;
mod markdown;
mod names;
mod repetition;
mod snippets;
mod tables;
mod tests;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::markdown::Page;

/// The folder of the workspace.
fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    let file = workspace().join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Does this for each file of code below a folder.
fn each_file_of_code(folder: &Path, act: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file_of_code(&path, act);
        } else if path.extension().is_some_and(|it| it == "rs" || it == "lua") {
            act(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

/// The Markdown files of a folder, by name.
fn markdown_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(workspace().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".md")).collect();
    names.sort_unstable();
    let prefix = if folder == "." { String::new() } else { format!("{folder}/") };
    names.into_iter().map(|name| prefix.clone() + &name).collect()
}

/// The pages that are read as one set.
fn pages() -> Vec<Page> {
    let paths = [".", "docs", "docs/manual"].into_iter().flat_map(markdown_in);
    paths.map(|path| Page::new(read(&path), path)).collect()
}

/// The same, and the pages of the crates, which stand alone on the page of a registry.
fn all_pages() -> Vec<Page> {
    let folders =
        ["redlock-core", "redlock-macros", "redlock-macros/src", "redlock-tower", "redlock-cli"];
    let paths = folders.into_iter().chain(["fuzz"]).flat_map(markdown_in);
    let mut pages = pages();
    pages.extend(paths.map(|path| Page::new(read(&path), path)));
    pages
}
