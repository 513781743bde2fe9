//! `cargo xtask docs`: the documentation, and that no type of redis-rs is part of the interface.

use std::{fs, path::Path};

use crate::{
    package::LIBRARIES,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str =
    "builds the documentation without a warning, and checks that no type of redis-rs is in it";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    let pages = shell::target().join("doc");
    // With the pages of redis-rs beside ours, every one of its types that appears in a signature, a
    // field, a trait implementation or a re-export is a link to it. Older pages have no such links.
    let redis = pages.join("redis/index.html");
    if !redis.is_file() && pages.is_dir() {
        fs::remove_dir_all(&pages)
            .map_err(|error| Failure::new(format!("{}: {error}", pages.display())))?;
    }
    shell::run(shell::cargo(["doc", "--package", "redis", "--no-deps"]))?;
    let mut command = shell::cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(command)?;
    if !redis.is_file() {
        return Err(Failure::new("redis-rs has no pages, so nothing could link to them"));
    }
    for name in LIBRARIES {
        let pages = pages.join(name.replace('-', "_"));
        if !pages.join("index.html").is_file() {
            return Err(Failure::new(format!("{} has no pages", pages.display())));
        }
        for_each_page(&pages, &mut |page, text| match link_to_redis(text) {
            Some(link) => Err(Failure::new(format!(
                "{} shows a type of redis-rs ({link}): a new major version of redis-rs would break \
                 every user of it; give it a type of our own",
                page.display()
            ))),
            None => Ok(()),
        })?;
    }
    Ok(())
}

/// Calls `see` with every HTML page in the folder, and with its path.
pub(crate) fn for_each_page(
    folder: &Path,
    see: &mut dyn FnMut(&Path, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            for_each_page(&path, see)?;
        } else if path.extension().is_some_and(|it| it == "html") {
            see(&path, &fs::read_to_string(&path).map_err(failed)?)?;
        }
    }
    Ok(())
}

/// A link to a page or to the source of redis-rs, on this machine or on docs.rs.
fn link_to_redis(page: &str) -> Option<&str> {
    page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).find(|link| {
        let path = link.trim_start_matches("../").trim_start_matches("src/");
        path.starts_with("redis/") || link.contains("docs.rs/redis/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_redis_is_seen_by_its_link() {
        let page = |link: &str| format!("<a class=\"struct\" href=\"{link}\">Value</a>");
        for link in [
            "../redis/enum.Value.html",
            "../../redis/struct.RedisError.html",
            "../src/redis/lib.rs.html#1-9",
            "https://docs.rs/redis/1.8.1/redis/enum.Value.html",
        ] {
            let page = page("struct.Redlock.html") + &page(link);
            assert_eq!(link_to_redis(&page), Some(link));
        }
        for link in ["struct.Node.html", "../redlock_core/index.html", "https://redis.io/docs"] {
            assert_eq!(link_to_redis(&page(link)), None, "{link}");
        }
    }
}
