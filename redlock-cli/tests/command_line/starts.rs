//! Commands that are not there, or do not start.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use tempfile::TempDir;

use super::*;

/// A folder, and a file in it that may be executed.
fn executable(content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    (folder, file)
}

/// With a `min_hold`, the lock would stay, and keep the job from running where it is there.
#[test]
fn a_command_that_cannot_be_run_takes_no_lock() {
    let nodes = Nodes::start(1);
    for (program, code, why) in [
        ("/no/such/program", 127, "no such command"),
        ("no-such-program", 127, "no such command"),
        ("", 127, "no such command"),
        ("/", 126, "permission denied"),
    ] {
        let run = done(&nodes, &["run", "r", "--min-hold", "30s", "--", program]);
        let words = format!("cannot run {program}: {why}");
        assert!(run.0 == code && run.2.contains(&words), "{run:?}");
        assert!(nodes[0].keys().is_empty(), "{:?}", nodes[0].keys());
    }
}

/// The system has places where it looks all the same.
#[test]
fn a_command_is_looked_for_without_a_path() {
    let nodes = Nodes::start(1);
    for (program, code) in [("no-such-program", 127), ("true", 0)] {
        let mut run = redlock(&nodes, &["run", "r", "--", program]);
        let run = told(run.env_remove("PATH").output().unwrap());
        assert_eq!(run.0, code, "{run:?}");
        assert!(nodes[0].keys().is_empty(), "{:?}", nodes[0].keys());
    }
}

/// A program whose loader is not there.
#[cfg(target_os = "linux")]
fn of_another_library() -> Vec<u8> {
    let mut program = fs::read(env!("CARGO_BIN_EXE_redlock")).unwrap();
    let loader = program.windows(4).position(|it| it == b"/ld-").unwrap();
    program[loader + 1] = b'x';
    program
}

#[test]
fn a_command_that_does_not_start_gives_its_lock_back() {
    let nodes = Nodes::start(1);
    for (content, why) in [
        (b"#!/no/such/interpreter\n".to_vec(), "interpreter"),
        (b"\x7fELF\0of another machine\n".to_vec(), "Exec format"),
        #[cfg(target_os = "linux")]
        (of_another_library(), "another C library"),
    ] {
        let (_folder, script) = executable(content);
        let run = done(&nodes, &["run", "r", "--", script.to_str().unwrap()]);
        assert!(run.0 == 126 && run.2.contains(why), "{run:?}");
        assert!(nodes[0].keys().is_empty(), "{:?}", nodes[0].keys());
    }
}

/// As shells do it, with the environment and the arguments of any command.
#[test]
fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let nodes = Nodes::start(1);
    let (folder, script) = executable("echo $REDLOCK_RESOURCE: \"$1\" $#\nexit 7\n");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    for program in [script.to_str().unwrap(), "script"] {
        let mut run = redlock(&nodes, &["run", "r", "--", program, "a  b", "-c"]);
        let run = told(run.env("PATH", &path).output().unwrap());
        assert_eq!(run, (7, "r: a  b 2\n".to_owned(), String::new()), "{program}");
    }
    let named_like_an_option = folder.path().join("-c");
    fs::create_dir(&named_like_an_option).unwrap();
    fs::rename(script, named_like_an_option.join("script")).unwrap();
    let mut run = redlock(&nodes, &["run", "r", "--", "-c/script", "a  b", "-c"]);
    let run = told(run.current_dir(folder.path()).output().unwrap());
    assert_eq!(run, (7, "r: a  b 2\n".to_owned(), String::new()));
}
