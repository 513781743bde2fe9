//! Nodes over TLS, as a shell names them.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use redlock_tests::{Authority, Certificate, Server};
use tempfile::TempDir;

const HOSTS: [&str; 1] = ["localhost"];

/// The files that the options name.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn certificate(&self, name: &str, it: &Certificate) -> [PathBuf; 2] {
        [self.write(&format!("{name}.crt"), &it.pem), self.write(&format!("{name}.key"), &it.key)]
    }
}

/// The exit code, and all that was printed.
fn redlock(url: &str, environment: &[(&str, &Path)], arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    // Patient with servers on a busy machine.
    command.args(["--node", url, "--node-timeout", "4s"]).args(arguments);
    for variable in ["REDLOCK_TLS_CA", "REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn run(url: &str, environment: &[(&str, &Path)]) -> (i32, String) {
    redlock(url, environment, &["run", "r", "--wait", "30s", "--ttl", "12s", "--", "echo", "done"])
}

#[test]
fn a_private_authority_is_trusted_and_no_other() {
    let files = Files::new();
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = Server::builder().tls(&ours.certificate(&HOSTS), None).start();
    let url = server.tls_url();
    let ca = files.write("ca.pem", &ours.pem());
    assert_eq!(run(&url, &[("REDLOCK_TLS_CA", &ca)]), (0, "done\n".to_owned()));

    let option = ["--tls-ca", ca.to_str().unwrap(), "health"];
    let (code, told) = redlock(&url, &[], &option);
    assert!(code == 0 && told.contains(": up"), "{told}");

    // The error names the option that mends it.
    let other = files.write("other.pem", &other.pem());
    for environment in [&[("REDLOCK_TLS_CA", &*other)][..], &[("SSL_CERT_FILE", &*other)]] {
        let (code, told) = redlock(&url, environment, &["health"]);
        assert_eq!(code, 69, "{told}");
        assert!(told.contains("no authority that this client trusts"), "{told}");
        assert!(told.contains("tls_ca"), "{told}");
    }
    // The authority of the machine.
    assert_eq!(run(&url, &[("SSL_CERT_FILE", &ca)]), (0, "done\n".to_owned()));
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it() {
    let files = Files::new();
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = Server::builder().tls(&servers.certificate(&HOSTS), Some(&clients)).start();
    let url = server.tls_url();
    let ca = files.write("ca.pem", &servers.pem());
    let [shown, key] = files.certificate("client", &clients.certificate(&["client"]));
    let trust = ("REDLOCK_TLS_CA", &*ca);
    let (shown, key) = (("REDLOCK_TLS_CERT", &*shown), ("REDLOCK_TLS_KEY", &*key));
    assert_eq!(run(&url, &[trust, shown, key]), (0, "done\n".to_owned()));

    let (code, told) = redlock(&url, &[trust], &["health"]);
    assert_eq!(code, 69, "{told}");
    assert!(told.contains("the server wants a client certificate"), "{told}");
}

#[test]
fn files_that_cannot_work_are_told_before_anything_is_connected() {
    let files = Files::new();
    let (no, junk) = (Path::new("/no/such/file"), files.write("junk.pem", "junk"));
    let secure = "rediss://localhost:1";
    let [certificate, key] =
        files.certificate("client", &Authority::new("clients").certificate(&["client"]));
    for (url, environment, words) in [
        (
            secure,
            &[("REDLOCK_TLS_CA", no)][..],
            "--tls-ca or REDLOCK_TLS_CA: cannot read /no/such/file: ",
        ),
        (secure, &[("REDLOCK_TLS_CA", &junk)], "it is not PEM"),
        (secure, &[("REDLOCK_TLS_CERT", &certificate)], "needs its --tls-key or REDLOCK_TLS_KEY"),
        (secure, &[("REDLOCK_TLS_KEY", &key)], "needs its --tls-cert or REDLOCK_TLS_CERT"),
        (
            secure,
            &[("REDLOCK_TLS_CERT", &certificate), ("REDLOCK_TLS_KEY", no)],
            "--tls-key or REDLOCK_TLS_KEY: cannot read /no/such/file: ",
        ),
    ] {
        let (code, told) = redlock(url, environment, &["health"]);
        assert!(code == 64 && told.contains(words), "{code} {told}");
    }
    // Beside a URL without TLS, these options would promise an encryption that is not there.
    let ca = files.write("ca.pem", &Authority::new("ours").pem());
    let (code, told) = redlock("redis://localhost:1", &[("REDLOCK_TLS_CA", &ca)], &["health"]);
    assert!(code == 64 && told.contains("rediss://"), "{code} {told}");
}
