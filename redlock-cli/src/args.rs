//! What the command line is made of.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use redlock_core::{__private::duration_in_words, Restarts};

use crate::exit::HELD;

/// Distributed locks over independent Redis masters.
///
/// Exit codes: 64 for a command line that cannot work, 69 when too few nodes answer, 74 when the lock was lost, or
/// --max-hold was over, and the command was stopped, 75 when another client holds the lock and nothing was done,
/// 70 for any other failure. Times are a whole number and a unit: ms, s, m, h or d.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Print JSON instead of words
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the nodes are, and what every client of theirs has to agree on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct Nodes {
    /// A node: redis://host:port, rediss:// for TLS, redis+unix://. Repeat it, or separate several by
    /// commas; one node, or an odd number
    #[arg(
        long = "node",
        value_name = "URL",
        env = "REDLOCK_NODES",
        hide_env_values = true,
        value_delimiter = ',',
        global = true
    )]
    pub(crate) urls: Vec<String>,
    #[command(flatten)]
    #[cfg(feature = "tls")]
    pub(crate) tls: Tls,
    /// What stands before the resource in each key: the same in all clients
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "redlock:",
        env = "REDLOCK_KEY_PREFIX",
        global = true
    )]
    pub(crate) key_prefix: String,
    /// What other clients call this one. Default: host and process id
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) client_name: Option<String>,
    /// How long a restarted node gives no votes, and the longest --ttl: the same in all clients
    #[arg(
        long,
        value_name = "TIME",
        value_parser = positive,
        default_value = "60s",
        env = "REDLOCK_MAX_TTL",
        global = true
    )]
    pub(crate) max_ttl: Duration,
    /// When a node that may have forgotten locks gives no votes for --max-ttl and its drift allowance
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        default_value_t = RestartPolicy::Observed,
        env = "REDLOCK_RESTARTS",
        global = true
    )]
    pub(crate) restarts: RestartPolicy,
    /// How long one command on one node may take. Default: 500ms, or a third of the ttl if that is shorter
    #[arg(long, value_name = "TIME", value_parser = positive, global = true)]
    pub(crate) node_timeout: Option<Duration>,
}

/// [`Restarts`] by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RestartPolicy {
    /// If this run has seen it restart
    Observed,
    /// Also if it has been up for less than --max-ttl and its drift allowance
    Strict,
    /// Never
    Trusted,
}

impl From<RestartPolicy> for Restarts {
    fn from(policy: RestartPolicy) -> Self {
        match policy {
            RestartPolicy::Observed => Self::Observed,
            RestartPolicy::Strict => Self::Strict,
            RestartPolicy::Trusted => Self::Trusted,
        }
    }
}

/// The options for nodes over TLS.
#[derive(Debug, Args)]
#[cfg(feature = "tls")]
pub(crate) struct Tls {
    /// For rediss:// URLs: trust the authorities in this PEM file and no others. Default: those of this
    /// machine
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_CA", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// For rediss:// URLs: the certificate that this client shows, with its chain (PEM). Read again at
    /// each connect
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_CERT", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_KEY", global = true)]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while this process holds the lock
    ///
    /// When the lock is lost, or --max-hold is over, the command gets SIGTERM, and SIGKILL after --kill-after.
    /// Where no terminal controls redlock, the process group of the command gets both as well. redlock
    /// exits with the exit code of the command, or with 128 and the number of the signal that ended it. The
    /// command finds the name of the lock in REDLOCK_RESOURCE, and with --fenced its token in REDLOCK_TOKEN.
    Run(Run),
    /// Show the holder of a lock, what is left of it, and the clients that wait
    Inspect {
        /// The name of the lock
        resource: String,
    },
    /// Take a lock away from its holder
    ///
    /// The holder is told at its next renewal, and the lock is free when what is left of it has run out. A key
    /// without an expiry takes --now.
    Release {
        /// The name of the lock
        resource: String,
        /// Delete it at once: the next client gets it while the holder may still work
        #[arg(long)]
        now: bool,
    },
    /// Ask each node whether it answers
    Health,
    /// Print a script that completes the arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    // Instead of the one of all commands, so that no help of this command offers it: it prints nothing.
    #[arg(long, hide = true)]
    json: bool,
    /// How long to wait for the lock
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) wait: Duration,
    /// How long the lock outlives a crash of this process. Default: 30s, or --max-ttl if that is shorter
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) ttl: Option<Duration>,
    /// Stop the command when it has run for this long: it gets SIGTERM, and SIGKILL after --kill-after. The
    /// lock is held until it has ended
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub(crate) max_hold: Option<Duration>,
    /// Keep the lock for at least this long: a job that is due on several machines runs once
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,
    /// Get a fencing token
    #[arg(long)]
    pub(crate) fenced: bool,
    /// How long the command has to end after SIGTERM when --max-hold is over or the lock is lost. A lock that is
    /// lost excludes no other client meanwhile
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) kill_after: Duration,
    /// The exit code when another client holds the lock: one that the command itself does not have, or 0, and
    /// then nothing is said of it
    #[arg(long, value_name = "CODE", default_value_t = HELD)]
    pub(crate) held_exit_code: u8,
    /// The name of the lock
    pub(crate) resource: String,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A time needs its unit: other programs count a bare number in seconds, configurations of locks in milliseconds.
fn time(text: &str) -> Result<Duration, String> {
    let time = duration_in_words(text).map_err(|_| {
        format!("{text:?} is not a time: write a whole number and one of ms, s, m, h and d, as 30s")
    })?;
    if time > Duration::ZERO && text.trim_end().ends_with(|it: char| it.is_ascii_digit()) {
        return Err(format!("{text:?} has no unit: write {text}s or {text}ms"));
    }
    Ok(time)
}

/// A limit of zero would be over before the work began.
fn limit(text: &str) -> Result<Duration, String> {
    more_than_zero(text, "leave the option out for no limit")
}

/// Settings are derived from each other: an error of the library would name another option.
fn positive(text: &str) -> Result<Duration, String> {
    more_than_zero(text, "use a positive time")
}

fn more_than_zero(text: &str, advice: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err(format!("zero: {advice}")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    /// Of a command, or of the program.
    fn help(name: Option<&str>) -> String {
        let mut command = Arguments::command();
        command.build();
        let command = match name {
            Some(name) => command.find_subcommand_mut(name).unwrap(),
            None => &mut command,
        };
        command.render_long_help().to_string()
    }

    #[test]
    fn a_help_has_each_heading_once_and_no_option_without_effect() {
        for name in [None, Some("run"), Some("inspect"), Some("health")] {
            let help = help(name);
            for heading in ["Options:", "Nodes:"] {
                let lines = help.lines().filter(|line| *line == heading);
                assert_eq!(lines.count(), 1, "{heading} of {name:?}: {help}");
            }
            assert_eq!(help.contains("--json"), name != Some("run"), "{help}");
        }
    }

    #[test]
    fn json_is_taken_before_a_command_and_behind_it() {
        for words in [["redlock", "--json", "health"], ["redlock", "health", "--json"]] {
            assert!(Arguments::parse_from(words).json, "{words:?}");
        }
        for words in ["redlock --json run r -- true", "redlock run r --json -- true"] {
            assert!(Arguments::try_parse_from(words.split(' ')).is_ok(), "{words}");
        }
    }

    #[test]
    fn a_time_of_zero_is_refused_where_it_is_of_no_use() {
        for (words, option) in [
            ("redlock run --ttl 0s r -- true", "--ttl"),
            ("redlock --max-ttl 0s health", "--max-ttl"),
            ("redlock --node-timeout 0 health", "--node-timeout"),
            ("redlock run --max-hold 0s r -- true", "--max-hold"),
        ] {
            let error = Arguments::try_parse_from(words.split(' ')).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains("zero: "), "{words}: {error}");
        }
        assert!(Arguments::try_parse_from("redlock run --wait 0s r -- true".split(' ')).is_ok());
    }

    #[test]
    fn times_are_an_integer_and_a_unit() {
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "30", "5000 ", "s", "-1s", "1.5s", "5w", "5S", "99999999999999999999d", "é"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
