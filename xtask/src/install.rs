//! Installs servers for the tests from the system's packages.

use std::process::{Command, Stdio};

use crate::shell::{self, Failure};

/// A server, and what its package is called.
pub(crate) struct Server {
    /// What people call it.
    pub(crate) name: &'static str,
    pub(crate) apt: &'static str,
    pub(crate) dnf: &'static str,
    pub(crate) apk: &'static str,
    pub(crate) brew: &'static str,
}

/// How one package manager installs something.
struct Installer {
    /// The package manager's program, by which it is found.
    program: &'static str,
    commands: &'static [&'static [&'static str]],
    /// The name of the package, which goes behind the last command.
    package: fn(&Server) -> &'static str,
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
            ],
        ],
        package: |server| server.apt,
        needs_root: true,
    },
    Installer {
        program: "dnf",
        commands: &[&["dnf", "install", "--assumeyes"]],
        package: |server| server.dnf,
        needs_root: true,
    },
    Installer {
        program: "apk",
        commands: &[&["apk", "add"]],
        package: |server| server.apk,
        needs_root: true,
    },
    Installer {
        program: "brew",
        commands: &[&["brew", "install"]],
        package: |server| server.brew,
        needs_root: false,
    },
];

/// Installs the server with the package manager that is here.
pub(crate) fn install(server: &Server) -> Result<(), Failure> {
    let name = server.name;
    let Some(installer) = INSTALLERS.iter().find(|installer| runs(installer.program, "--version"))
    else {
        return Err(Failure::new(format!(
            "{name} is not here, and neither is apt-get, dnf, apk or brew to install it: install \
             it by hand"
        )));
    };
    let sudo = installer.needs_root && !is_root();
    if sudo && !runs("sudo", "--version") {
        return Err(Failure::new(format!(
            "{name} is not here, and installing it takes root, which this is not, and sudo is not \
             here: as root, run `{}`",
            lines(installer, server, false).join(" && ")
        )));
    }
    println!("{name} is not here. To install it, this will run:");
    for line in lines(installer, server, sudo) {
        println!("    {line}");
    }
    for words in commands(installer, server, sudo) {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        shell::run(command)?;
    }
    Ok(())
}

fn commands(installer: &Installer, server: &Server, sudo: bool) -> Vec<Vec<&'static str>> {
    let prefix: &[&str] = if sudo { &["sudo"] } else { &[] };
    let mut commands: Vec<_> =
        installer.commands.iter().map(|words| [prefix, words].concat()).collect();
    if let Some(last) = commands.last_mut() {
        last.push((installer.package)(server));
    }
    commands
}

fn lines(installer: &Installer, server: &Server, sudo: bool) -> Vec<String> {
    commands(installer, server, sudo).iter().map(|words| words.join(" ")).collect()
}

/// Whether this program is here and ends well.
pub(crate) fn runs(program: &str, argument: &str) -> bool {
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

    const SERVER: Server = Server {
        name: "A server",
        apt: "for-apt",
        dnf: "for-dnf",
        apk: "for-apk",
        brew: "for-brew",
    };

    #[test]
    fn sudo_goes_in_front_of_every_command_and_brew_never_gets_it() {
        let apt = &INSTALLERS[0];
        assert!(lines(apt, &SERVER, true).iter().all(|line| line.starts_with("sudo ")));
        assert_eq!(lines(apt, &SERVER, false)[0], "apt-get update");
        assert!(INSTALLERS.iter().all(|i| i.needs_root == (i.program != "brew")));
    }

    #[test]
    fn each_package_manager_has_its_own_name_for_the_package() {
        for installer in INSTALLERS {
            let last = lines(installer, &SERVER, false).pop().unwrap();
            let manager = installer.program.trim_end_matches("-get");
            assert!(last.ends_with(&format!(" for-{manager}")), "{last}");
        }
    }
}
