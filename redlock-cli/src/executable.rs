//! Whether a command can be run at all. A job that is not there must not use up its tick: with `--min-hold`, the
//! lock would stay although nothing ran.

use std::{
    env,
    ffi::OsStr,
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::fs::{Access, access};

/// # Errors
///
/// `NotFound` and `PermissionDenied`, as the start of the command would fail.
pub(crate) fn check(program: &OsStr) -> io::Result<()> {
    if program.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    if program.as_bytes().contains(&b'/') {
        return check_file(Path::new(program));
    }
    // Without a `PATH`, the system has one of its own.
    let Some(path) = env::var_os("PATH") else { return Ok(()) };
    let mut found = Err(ErrorKind::NotFound.into());
    for folder in env::split_paths(&path) {
        // An empty one is the working directory.
        match check_file(&folder.join(program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found = Err(error),
            Err(_) => {}
        }
    }
    found
}

fn check_file(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_dir() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        let check = |program: &str| check(OsStr::new(program)).map_err(|error| error.kind());
        for there in ["sh", "/bin/sh"] {
            assert_eq!(check(there), Ok(()), "{there}");
        }
        let text = tempfile::NamedTempFile::new().unwrap();
        for (program, kind) in [
            ("", ErrorKind::NotFound),
            ("no-such-program", ErrorKind::NotFound),
            ("/no/such/program", ErrorKind::NotFound),
            ("/", ErrorKind::PermissionDenied),
            (text.path().to_str().unwrap(), ErrorKind::PermissionDenied),
        ] {
            assert_eq!(check(program), Err(kind), "{program}");
        }
    }
}
