//! Sees to it that there is a `redis-server` to test with.

use std::process::{Command, Stdio};

use crate::shell::{self, Failure};

/// How one package manager installs redis-server.
struct Installer {
    /// The package manager's program, by which it is found.
    program: &'static str,
    commands: &'static [&'static [&'static str]],
    /// Homebrew refuses to run as root; the others must.
    needs_root: bool,
}

const INSTALLERS: &[Installer] = &[
    Installer {
        program: "apt-get",
        commands: &[
            &["apt-get", "update"],
            &[
                "env",
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
                "install",
                "--yes",
                "--no-install-recommends",
                "redis-server",
            ],
        ],
        needs_root: true,
    },
    Installer {
        program: "dnf",
        commands: &[&["dnf", "install", "--assumeyes", "redis"]],
        needs_root: true,
    },
    Installer { program: "apk", commands: &[&["apk", "add", "redis"]], needs_root: true },
    Installer { program: "brew", commands: &[&["brew", "install", "redis"]], needs_root: false },
];

/// Returns once `redis-server` can be run, which may install it.
pub(crate) fn ensure() -> Result<(), Failure> {
    if let Some(version) = version() {
        println!("{version}");
        return Ok(());
    }
    let Some(installer) = INSTALLERS.iter().find(|installer| runs(installer.program, "--version"))
    else {
        return Err(Failure::new(
            "redis-server is not on the PATH, and neither apt-get, dnf, apk nor brew is here to \
             install it: install Redis 6.2 or later by hand",
        ));
    };
    let sudo = installer.needs_root && !is_root();
    if sudo && !runs("sudo", "--version") {
        return Err(Failure::new(format!(
            "redis-server is not on the PATH, and installing it takes root, which this is not, \
             and sudo is not here: as root, run `{}`",
            lines(installer, false).join(" && ")
        )));
    }
    println!("redis-server is not on the PATH. To install it, this will run:");
    for line in lines(installer, sudo) {
        println!("    {line}");
    }
    for words in commands(installer, sudo) {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        shell::run(command)?;
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

fn commands(installer: &Installer, sudo: bool) -> Vec<Vec<&'static str>> {
    let prefix: &[&str] = if sudo { &["sudo"] } else { &[] };
    installer.commands.iter().map(|words| [prefix, words].concat()).collect()
}

fn lines(installer: &Installer, sudo: bool) -> Vec<String> {
    commands(installer, sudo).iter().map(|words| words.join(" ")).collect()
}

/// What `redis-server` says of itself, if it is there.
fn version() -> Option<String> {
    let output = Command::new("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().to_owned())
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_goes_in_front_of_every_command_and_brew_never_gets_it() {
        let apt = &INSTALLERS[0];
        assert!(lines(apt, true).iter().all(|line| line.starts_with("sudo ")));
        assert_eq!(lines(apt, false)[0], "apt-get update");
        assert!(INSTALLERS.iter().all(|i| i.needs_root == (i.program != "brew")));
    }
}
