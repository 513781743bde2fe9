//! What the user asks for.

use std::path::PathBuf;

use crate::{client::Which, workload};

/// A run as it was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) quick: bool,
    /// Names of workloads; all when empty.
    pub(crate) only: Vec<String>,
    /// Parts of case labels: a case runs if its label contains any of these. All cases when empty.
    pub(crate) cases: Vec<String>,
    /// All when empty.
    pub(crate) clients: Vec<Which>,
    pub(crate) rounds: Option<usize>,
    pub(crate) out: Option<PathBuf>,
}

impl Arguments {
    /// Reads the arguments; `Err` is what to tell the user.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n\n{}", help()));
            match word.as_str() {
                "--quick" => arguments.quick = true,
                "--only" => {
                    let name = value()?;
                    if !workload::ALL.iter().any(|workload| workload.name == name) {
                        return Err(format!("there is no workload {name:?}\n\n{}", help()));
                    }
                    arguments.only.push(name.clone());
                }
                "--case" => arguments.cases.push(value()?.clone()),
                "--clients" => {
                    for name in value()?.split(',') {
                        let unknown = || format!("there is no client {name:?}\n\n{}", help());
                        arguments.clients.push(Which::named(name).ok_or_else(unknown)?);
                    }
                }
                "--rounds" => {
                    let rounds = value()?;
                    let rounds = rounds.parse().ok().filter(|rounds| *rounds > 0);
                    arguments.rounds = Some(rounds.ok_or("--rounds needs a number above zero")?);
                }
                "--out" => arguments.out = Some(value()?.into()),
                "--help" | "-h" => return Err(help()),
                _ => return Err(format!("unknown argument {word:?}\n\n{}", help())),
            }
        }
        Ok(arguments)
    }

    /// Whether a workload was asked for.
    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == workload)
    }

    /// Whether a case with this label was asked for.
    pub(crate) fn wants_case(&self, label: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| label.contains(part))
    }

    /// Whether a client was asked for.
    pub(crate) fn includes(&self, client: Which) -> bool {
        self.clients.is_empty() || self.clients.contains(&client)
    }

    /// Everything, in full: what the page shows.
    pub(crate) fn is_full(&self) -> bool {
        let all = self.only.is_empty() && self.cases.is_empty() && self.clients.is_empty();
        all && !self.quick && self.rounds.is_none()
    }
}

fn help() -> String {
    let mut text = String::from(
        "Usage: cargo xtask bench [--quick] [--only <workload>].. [--case <part of a label>].. \
         [--clients <client>,..] [--rounds <n>] [--out <directory>]\n\n\
         A full run takes about half an hour and writes docs/benchmarks; any other run writes\n\
         target/benchmarks.\n\nWorkloads:\n",
    );
    for workload in workload::ALL {
        text += &format!("  {:<12}{}\n", workload.name, workload.about);
    }
    let clients: Vec<_> = Which::ALL.iter().map(|which| which.name()).collect();
    text += &format!("\nClients: {}\n", clients.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read() {
        let full = read("").unwrap();
        assert!(full.wants_case("16 tasks"));
        assert!(full.is_full() && full.wants("herd") && full.includes(Which::Ours));
        let some =
            read("--quick --only herd --only faults --case 16 --clients ours,bare --rounds 2")
                .unwrap();
        assert!(some.wants_case("16 tasks") && !some.wants_case("128 tasks"));
        assert!(!some.is_full() && some.wants("faults") && !some.wants("latency"));
        assert!(some.includes(Which::Bare) && !some.includes(Which::Mutex));
        assert_eq!(some.rounds, Some(2));
    }

    #[test]
    fn a_mistake_is_told_with_what_there_is() {
        for line in ["--only nothing", "--only", "--clients us", "--rounds 0", "--fast"] {
            read(line).unwrap_err();
        }
        assert!(read("--only nothing").unwrap_err().contains("throughput"));
    }
}
