//! Sees to it that there is a `redis-server` to test with.

use std::process::Command;

use crate::{
    install::{self, Server},
    shell::Failure,
};

const REDIS: Server =
    Server { name: "redis-server", apt: "redis-server", dnf: "redis", apk: "redis", brew: "redis" };

/// Returns once `redis-server` can be run, which may install it.
pub(crate) fn ensure() -> Result<(), Failure> {
    if version().is_none() {
        install::install(&REDIS)?;
    }
    match version() {
        Some(version) => {
            println!("{version}");
            Ok(())
        }
        None => Err(Failure::new(
            "redis-server was installed and is still not on the PATH: add its directory to PATH",
        )),
    }
}

/// What `redis-server` says of itself, if it is there.
fn version() -> Option<String> {
    let output = Command::new("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().to_owned())
}
