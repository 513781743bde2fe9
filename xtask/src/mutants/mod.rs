//! Seeded bugs: patches that break the code on purpose, and a suite for each that has to fail.
//!
//! A suite that finds a bug which was planted for it is a suite that looks. The patches are in
//! `tests/mutants`. Each is applied to a copy of the workspace, so that the code itself holds none of
//! them. A patch that no longer applies is an error, and so is a bug that its suite does not find, or a suite that
//! fails without the bug.

mod copy;
mod patch;
mod suite;

use std::{fs, time::Instant};

use self::{copy::Copy, patch::Patch};
use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "plants each bug of tests/mutants in a copy, and sees it found: [NAME..] for some of them";

/// Where the patches are, in the workspace.
const FOLDER: &str = "tests/mutants";

/// Plants the bugs with these names, or all of them.
pub(crate) fn run(names: &[String]) -> Result<(), Failure> {
    let chosen = chosen(all()?, names)?;
    check()?;
    let copy = Copy::new(shell::target().join("mutants"))?;
    check_suites(&copy, &chosen)?;
    println!("{:<26} {:>6}  caught by, and what was seen first", "bug", "s");
    let mut missed = Vec::new();
    for patch in &chosen {
        if let Err(failure) = try_out(&copy, patch) {
            println!("{:<26} {:>6}  {failure}", patch.name, "");
            missed.push(patch.name.as_str());
        }
    }
    if missed.is_empty() {
        println!("{} of {} bugs were caught", chosen.len(), chosen.len());
        return Ok(());
    }
    Err(Failure::new(format!("not caught as their patches say: {}", missed.join(", "))))
}

/// Whether every patch still applies. Builds nothing.
pub(crate) fn check() -> Result<(), Failure> {
    let workspace = shell::workspace();
    all()?.iter().try_for_each(|patch| patch.check(&workspace))
}

fn all() -> Result<Vec<Patch>, Failure> {
    let folder = shell::workspace().join(FOLDER);
    let unreadable = |error| Failure::new(format!("{}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    paths.iter().map(|path| Patch::read(path)).collect()
}

fn chosen(all: Vec<Patch>, names: &[String]) -> Result<Vec<Patch>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|it| it.name == **name)) {
        let known: Vec<_> = all.iter().map(|patch| patch.name.as_str()).collect();
        let known = known.join(", ");
        return Err(Failure::new(format!("there is no bug {unknown}; there are {known}")));
    }
    Ok(all.into_iter().filter(|it| names.is_empty() || names.contains(&it.name)).collect())
}

/// Whether the tests that are to notice the bugs pass without them. A test that always fails would catch any bug. The
/// simulation has a command of its own, which runs more schedules than any bug needs.
fn check_suites(copy: &Copy, patches: &[Patch]) -> Result<(), Failure> {
    copy.restore()?;
    let log = copy.log("without-bugs")?;
    let mut suites: Vec<_> =
        patches.iter().map(|it| &it.caught_by).filter(|it| it.is_of_tests()).collect();
    suites.sort();
    suites.dedup();
    suites.iter().try_for_each(|suite| suite.passes(copy, &log))
}

/// Plants one bug, and runs the suites that its patch names.
fn try_out(copy: &Copy, patch: &Patch) -> Result<(), Failure> {
    copy.plant(patch)?;
    let begun = Instant::now();
    let log = copy.log(&patch.name)?;
    let seen = patch.caught_by.fails(copy, &log)?;
    let took = begun.elapsed().as_secs();
    println!("{:<26} {took:>6}  {}: {seen}", patch.name, patch.caught_by);
    for suite in &patch.passes {
        suite.passes(copy, &log)?;
        println!("{:<26} {:>6}  {suite} passes, as it should", "", "");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn all_patches_are_well_formed_and_apply() {
        assert!(all().unwrap().len() > 40);
        check().unwrap();
    }

    #[test]
    fn bugs_are_chosen_by_name() {
        let one = chosen(all().unwrap(), &named(&["drift-left-out"])).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(chosen(all().unwrap(), &[]).unwrap().len(), all().unwrap().len());
        let failure = chosen(all().unwrap(), &named(&["drift"])).unwrap_err().to_string();
        assert!(failure.contains("there is no bug drift; there are "), "{failure}");
    }
}
