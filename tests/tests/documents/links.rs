//! Links.

use std::path::{Component, Path, PathBuf};

use super::{all_pages, markdown::Page, pages, workspace};

/// The index of the manual, which leads to every page.
const INDEX: &str = "docs/manual/README.md";

/// The path to which a link of a page leads, from the folder of the workspace, and its anchor. `None` for a
/// link to another host.
fn target(page: &Page, link: &str) -> Option<(String, String)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() {
        return Some((page.path.clone(), anchor.to_owned()));
    }
    let folder = Path::new(&page.path).parent().unwrap();
    let mut path = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{}: {link}", page.path),
            part => path.push(part),
        }
    }
    Some((path.to_str().unwrap().to_owned(), anchor.to_owned()))
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let pages = all_pages();
    let mut wrong = Vec::new();
    for page in &pages {
        for link in page.links() {
            let Some((path, anchor)) = target(page, &link) else { continue };
            let there = pages.iter().find(|other| other.path == path);
            let leads = match there {
                Some(other) => anchor.is_empty() || other.anchors().contains(&anchor),
                None => anchor.is_empty() && workspace().join(&path).exists(),
            };
            // The documentation of the attribute links to its own headings and to items of rustdoc.
            if !leads && !page.path.starts_with("redlock-macros/src/") {
                wrong.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_manual_leads_to_every_page_and_every_page_to_the_manual() {
    let pages = pages();
    let leads = |page: &Page, to: &str| {
        page.links().iter().any(|link| target(page, link).is_some_and(|(path, _)| path == to))
    };
    let index = pages.iter().find(|page| page.path == INDEX).unwrap();
    let mut wrong = Vec::new();
    // The changelog is a list of what was done, and leads nowhere.
    for page in pages.iter().filter(|page| page.path != INDEX && page.path != "CHANGELOG.md") {
        if !leads(index, &page.path) {
            wrong.push(format!("{INDEX} does not lead to {}", page.path));
        }
        if !leads(page, INDEX) {
            wrong.push(format!("{} does not lead to {INDEX}", page.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
