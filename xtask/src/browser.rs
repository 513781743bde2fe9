//! Sees to it that there is a browser for the tests of the console, where that can be had.

use std::{fs, process::Command};

use crate::{
    install::{self, Server, runs},
    shell,
};

const CHROMIUM: Server = Server {
    name: "Chromium",
    apt: "chromium",
    dnf: "chromium",
    apk: "chromium",
    brew: "chromium",
};

/// The rules of accessibility that the page is checked by: a script that runs in the page.
const AXE: &str = "axe-core@4.10.3";

/// Tries to install what is missing. Without it the tests that need it say that they are skipped, and the
/// others run.
pub(crate) fn try_to_ensure() {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    if !names.iter().any(|name| runs(name, "--version"))
        && let Err(failure) = install::install(&CHROMIUM)
    {
        println!("{failure}; the tests that need a browser are skipped");
    }
    let folder = shell::target().join("axe");
    if folder.join("node_modules/axe-core/axe.min.js").is_file() {
        return;
    }
    if !runs("npm", "--version") {
        println!("npm is not here to get axe-core; the test of accessibility is skipped");
        return;
    }
    let made = fs::create_dir_all(&folder).map_err(|error| error.to_string());
    let installed = made.and_then(|()| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
        npm.arg(&folder).arg(AXE);
        shell::run(npm).map_err(|failure| failure.to_string())
    });
    if let Err(failure) = installed {
        println!("{failure}; the test of accessibility is skipped");
    }
}
