//! Sees to it that there is a HAProxy to test with, where that can be had.

use crate::install::{self, Server, runs};

const HAPROXY: Server =
    Server { name: "HAProxy", apt: "haproxy", dnf: "haproxy", apk: "haproxy", brew: "haproxy" };

/// Where packages put it when it is not on the PATH of a user.
const PLACE: &str = "/usr/sbin/haproxy";

/// Tries to install HAProxy if it is missing. Without it the tests that need it say that they are
/// skipped, and the others run.
pub(crate) fn try_to_ensure() {
    if runs("haproxy", "-v") || runs(PLACE, "-v") {
        return;
    }
    if let Err(failure) = install::install(&HAPROXY) {
        println!("{failure}; the tests that need HAProxy are skipped");
    }
}
