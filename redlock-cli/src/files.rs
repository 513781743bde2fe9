//! What packagers install beside the program.

use std::{path::Path, process::ExitCode};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    args::Arguments,
    exit::{Failure, INTERNAL},
    show,
};

/// Prints a script that completes the arguments.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "redlock", &mut script);
    show::say(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages into a folder.
pub(crate) fn man(folder: &Path) -> Result<ExitCode, Failure> {
    let failed = |error| {
        Failure::new(INTERNAL, format!("cannot write the pages to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
