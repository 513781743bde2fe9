//! Whether a command can be run at all. A job that is not there must not use up its tick: with `--min-hold`, the
//! lock would stay although nothing ran.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    io::{self, ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Where the system looks for commands if there is no `PATH`.
const WITHOUT_PATH: &str =
    if cfg!(target_env = "musl") { "/usr/local/bin:/bin:/usr/bin" } else { "/bin:/usr/bin" };

/// Where it is.
///
/// # Errors
///
/// `NotFound` and `PermissionDenied`, as the start of the command would fail.
pub(crate) fn find(program: &OsStr) -> io::Result<PathBuf> {
    if program.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    if program.as_bytes().contains(&b'/') {
        return check_file(program.into());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| WITHOUT_PATH.into());
    let mut found = Err(ErrorKind::NotFound.into());
    for folder in env::split_paths(&path) {
        // An empty one is the working directory.
        match check_file(folder.join(program)) {
            Ok(there) => return Ok(there),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found = Err(error),
            Err(_) => {}
        }
    }
    found
}

fn check_file(path: PathBuf) -> io::Result<PathBuf> {
    if path.metadata()?.is_dir() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    access(&path, Access::EXEC_OK)?;
    Ok(path)
}

/// Whether a file that the system cannot start may be a script that names no interpreter. Shells ask the same: what
/// was built for another machine would be nonsense to them. One that cannot be read is left to the shell to report.
pub(crate) fn may_be_a_script(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(128).read_to_end(&mut start));
    read.is_err() || !start.contains(&0)
}

/// Whether the first line of a file names the program that runs it.
pub(crate) fn names_an_interpreter(path: &Path) -> bool {
    let mut start = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        let find = |program: &str| find(OsStr::new(program)).map_err(|error| error.kind());
        assert_eq!(find("/bin/sh"), Ok("/bin/sh".into()));
        assert!(find("sh").unwrap().ends_with("sh") && find("sh").unwrap().is_absolute());
        let text = tempfile::NamedTempFile::new().unwrap();
        for (program, kind) in [
            ("", ErrorKind::NotFound),
            ("no-such-program", ErrorKind::NotFound),
            ("/no/such/program", ErrorKind::NotFound),
            ("/", ErrorKind::PermissionDenied),
            (text.path().to_str().unwrap(), ErrorKind::PermissionDenied),
        ] {
            assert_eq!(find(program), Err(kind), "{program}");
        }
    }
}
