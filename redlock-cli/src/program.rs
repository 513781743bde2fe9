//! From the command line to the exit code.

use std::{env, ffi::OsString, process::ExitCode, time::Duration};

use clap::{
    Arg, CommandFactory, FromArgMatches, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
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
    let done = match parsed() {
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

/// The command line, and what the environment adds to it.
fn parsed() -> Result<Arguments, clap::Error> {
    // Compose files write an empty variable where nothing was set.
    let is_unset =
        |arg: &Arg| arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
    let without = |is_left_out: &dyn Fn(&Arg) -> bool| {
        let leave_out = |arg: Arg| if is_left_out(&arg) { arg.env(None) } else { arg };
        Arguments::command().mut_args(leave_out).try_get_matches()
    };
    match without(&is_unset) {
        Ok(mut matches) => Arguments::from_arg_matches_mut(&mut matches),
        // The help names all variables.
        Err(help) if !help.use_stderr() => Arguments::try_parse(),
        Err(mut error) => {
            let of_error = |error: &clap::Error| error.get(ContextKind::InvalidArg).cloned();
            let Some(ContextValue::String(option)) = of_error(&error) else { return Err(error) };
            let mut command = Arguments::command();
            command.build();
            let mistaken = |arg: &&Arg| arg.to_string() == option;
            let variable = command.get_arguments().find(mistaken).and_then(Arg::get_env);
            // What is an error without the variable too is none of the variable's.
            let other = |arg: &Arg| is_unset(arg) || arg.get_env() == variable;
            let is_innocent = || without(&other).is_err_and(|it| of_error(&it) == of_error(&error));
            if let Some(variable) = variable.filter(|_| !is_innocent()) {
                let named = format!("{} ({option})", variable.display());
                error.insert(ContextKind::InvalidArg, ContextValue::String(named));
            }
            Err(error)
        }
    }
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
