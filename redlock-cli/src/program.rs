//! From the command line to the exit code.

use std::{env, ffi::OsString, process::ExitCode, time::Duration};

use clap::{Parser, error::ErrorKind};
use redlock_core::{Node, NodeHealth, Redlock};

#[cfg(feature = "tls")]
use crate::tls;
use crate::{
    args::{Arguments, Command, Nodes},
    exit::{Failure, INTERNAL, USAGE},
    files, run,
    show::{self, Was},
};

pub(crate) fn main() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => {
            all_nodes(&arguments.nodes, env::args_os()).and_then(|()| start(arguments))
        }
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            // The help shows no argument.
            let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            if !is_help && (text.contains("://") || text.contains('@')) {
                // A URL in the wrong place may hold a password.
                let what = error.kind().as_str().unwrap_or("this command line cannot work");
                show::tell(format_args!("{what}: {URL_HIDDEN}"));
            } else {
                // If printing fails, there is no other way to report it.
                let _ = error.print();
            }
            return USAGE.into();
        }
        // The help or the version, which was asked for.
        Err(help) => show::printed(help.print()).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|failure| {
        if !failure.is_success() {
            show::tell(&failure);
        }
        failure.exit_code()
    })
}

/// Refuses nodes before the command and behind it: the parser knows the last ones alone, and their quorum is another.
fn all_nodes(nodes: &Nodes, words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let mut words = words.take_while(|word| word != "--");
    let mut named = 0;
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        let urls = match word.strip_prefix("--node") {
            Some("") => words.next().map(|it| it.to_string_lossy().into_owned()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        named += urls.map_or(0, |urls| urls.split(',').count());
    }
    if named == 0 || named == nodes.urls.len() {
        return Ok(());
    }
    let problem = "--node stands before the command and behind it: write all nodes in one place";
    Err(Failure::new(USAGE, problem))
}

fn start(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Arguments { json, nodes, command } = arguments;
    match command {
        Command::Completions { shell } => files::completions(shell),
        Command::Man { folder } => files::man(&folder),
        command => {
            let ttl = ttl(&nodes, &command);
            let redlock = connect(&nodes, &command, ttl)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::new(INTERNAL, format!("no runtime: {error}")))?;
            runtime.block_on(serve(redlock, json, command, ttl))
        }
    }
}

/// Instead of a part of the command line.
const URL_HIDDEN: &str =
    "it looks like a URL and is not shown. The URLs of nodes go behind --node; see --help";

const TTL: Duration = Duration::from_secs(30);

/// The library's is a tenth of it. A run is a new client, which begins with a connection.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

fn ttl(nodes: &Nodes, command: &Command) -> Duration {
    match command {
        Command::Run(run) => run.ttl.unwrap_or(TTL.min(nodes.max_ttl)),
        // They take no lock, and must work whatever the locks are like.
        _ => nodes.max_ttl,
    }
}

/// A client of the nodes. Nothing is connected yet.
fn connect(nodes: &Nodes, command: &Command, ttl: Duration) -> Result<Redlock, Failure> {
    // One that is empty among others is not left out: without it, the quorum would be another.
    if nodes.urls.iter().all(|url| url.trim().is_empty()) {
        let problem = "no nodes: name them with --node or in REDLOCK_NODES";
        return Err(Failure::new(USAGE, problem));
    }
    let named = nodes.urls.iter().map(|url| Node::new(url.trim()));
    #[cfg(feature = "tls")]
    let named = tls::secured(named, &nodes.tls)?;
    let mut builder = Redlock::builder()
        .nodes(named)
        .key_prefix(&nodes.key_prefix)
        .ttl(ttl)
        .max_ttl(nodes.max_ttl)
        .restarts(nodes.restarts.into())
        .node_timeout(nodes.node_timeout.unwrap_or(NODE_TIMEOUT.min(ttl / 3)));
    if let Some(name) = &nodes.client_name {
        builder = builder.client_name(name);
    }
    if let Command::Run(run) = command {
        builder = builder.wait(run.wait);
    }
    Ok(builder.build()?)
}

async fn serve(
    redlock: Redlock,
    json: bool,
    command: Command,
    ttl: Duration,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(run) => run::run(&redlock, run, ttl).await,
        Command::Inspect { resource } => {
            let status = redlock.inspect(&resource).await?;
            show::status(&resource, &status, json)
        }
        Command::Release { resource, now } => {
            // A name that is not quite right must not look like a lock that was taken away.
            let was = Was::of(&redlock.inspect(&resource).await?);
            if now {
                redlock.force_release_now(&resource).await?;
            } else {
                redlock.force_release(&resource).await?;
            }
            show::released(&resource, now, was, json)
        }
        Command::Health => show::health(&health(&redlock).await, json),
        Command::Completions { .. } | Command::Man { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// The health of each node. A node that is up is asked twice: the first answer of a new client counts the time to
/// connect as well.
async fn health(redlock: &Redlock) -> Vec<NodeHealth> {
    let first = redlock.health().await;
    if !first.iter().any(NodeHealth::is_up) {
        return first;
    }
    let second = redlock.health().await;
    let later = first.into_iter().zip(second);
    later.map(|(first, second)| if first.is_up() { second } else { first }).collect()
}
