//! `cargo xtask labels`: whether docs.rs will show which feature each gated item needs.

use std::{collections::BTreeSet, path::Path};

use crate::{
    docs::for_each_page,
    package::LIBRARIES,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str =
    "checks, with a nightly toolchain, that docs.rs labels each item that needs a feature";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    let every = document("--all-features", "labels")?;
    let none = document("--no-default-features", "labels-none")?;
    for name in LIBRARIES {
        let folder = name.replace('-', "_");
        let (every, none) = (every.join(&folder), none.join(&folder));
        // What is there only with features needs a label; a page of a module or an item has one.
        let without = pages(&none)?;
        let mut labels = 0;
        for_each_page(&every, &mut |page, text| {
            if without.contains(&relative(page, &every)) || is_redirect(text) {
                return Ok(());
            }
            labels += 1;
            if text.contains("Available on <strong>crate feature") {
                return Ok(());
            }
            Err(Failure::new(format!(
                "{} is there with all features and not without any, and does not say which it \
                 needs: write #[doc(cfg(feature = \"..\"))]",
                page.display()
            )))
        })?;
        println!("{name}: {labels} pages of items that need a feature, each labelled");
    }
    Ok(())
}

/// Builds the documentation as docs.rs does.
fn document(features: &str, folder: &str) -> Result<std::path::PathBuf, Failure> {
    let target = shell::target().join(folder);
    let mut command = shell::cargo_of("nightly", ["doc", "--no-deps", features]);
    command.args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    // A later compiler may warn of more, which is not the business of this check.
    command.env("RUSTDOCFLAGS", "--cfg docsrs -D rustdoc::broken_intra_doc_links");
    command.env("CARGO_TARGET_DIR", &target);
    shell::run(command)?;
    Ok(target.join("doc"))
}

fn pages(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut pages = BTreeSet::new();
    for_each_page(folder, &mut |page, _| {
        pages.insert(relative(page, folder));
        Ok(())
    })?;
    Ok(pages)
}

fn relative(page: &Path, folder: &Path) -> String {
    page.strip_prefix(folder).unwrap_or(page).display().to_string()
}

/// A page that only leads to where an item of a private module is shown.
fn is_redirect(text: &str) -> bool {
    text.contains("http-equiv=\"refresh\"")
}
