//! Runs every shell block of the documents, in the order of each page, over real servers. A `text` block
//! behind it is what it prints; `...` stands for any text.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, if not all of them are #[test]"
)]

use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use redlock_tests::{LIMIT, Nodes};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;

/// The addresses that the documents use, and the servers of a test stand for.
const ADDRESSES: [&str; 3] = ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"];

/// Programs of examples run as they are built. What takes minutes, or installs, is named and not run:
/// `tests/tests/documents` sees that it exists.
const CARGO: &str = r#"#!/bin/sh
case "$1" in
run)
    case "$*" in *--manifest-path*) exit 0 ;; esac
    while [ "$1" != --bin ]; do shift; done
    program=$2
    shift 2
    [ "$1" = -- ] && shift
    # Over nodes of its own.
    unset REDLOCK_NODES
    exec "PROGRAMS/$program" "$@"
    ;;
xtask | install) ;;
*) echo "cargo $1 is not known here" >&2 && exit 1 ;;
esac
"#;

/// A command, and what it prints.
#[derive(Debug)]
struct Step {
    commands: Vec<String>,
    prints: Option<String>,
}

/// The shell blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            "sh" => {
                let text = block.join("\n").replace("\\\n", " ");
                let commands = text.lines().map(str::to_owned).collect();
                steps.push(Step { commands, prints: None });
            }
            "text" => {
                if let Some(step) = steps.last_mut().filter(|step| step.prints.is_none()) {
                    step.prints = Some(block.join("\n") + "\n");
                }
            }
            _ => {}
        }
    }
    steps
}

/// Whether a text is like a pattern, in which `...` is any text without a line break.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once("...") else { return text == pattern };
    let Some(text) = text.strip_prefix(start) else { return false };
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let mut ends = ends.take_while(|at| !text[..*at].contains('\n'));
    ends.any(|at| is_like(&text[at..], rest))
}

/// A shell that reads commands one by one, as a person types them.
struct Shell {
    process: Child,
    input: ChildStdin,
    nodes: Nodes,
    folder: TempDir,
}

impl Shell {
    fn start(programs: &Path) -> Self {
        let nodes = Nodes::start(ADDRESSES.len());
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("cargo", &CARGO.replace("PROGRAMS", programs.to_str().unwrap()));
        // Patient with servers on a busy machine.
        let redlock =
            format!("#!/bin/sh\nexec {}/redlock --node-timeout 2s \"$@\"\n", programs.display());
        script("redlock", &redlock);
        for work in ["report.sh", "deploy.sh"] {
            script(work, "#!/bin/sh\necho done >&2\n");
        }
        let path = std::env::var("PATH").unwrap();
        let mut process = Command::new("sh")
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(fs::File::create(folder.path().join("output")).unwrap())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let mut shell = Self { process, input, nodes, folder };
        shell.run(&format!("export REDLOCK_NODES={}", shell.nodes.urls().join(",")));
        shell
    }

    /// With the addresses of the documents.
    fn output(&self) -> String {
        let mut output = fs::read_to_string(self.folder.path().join("output")).unwrap();
        for (address, server) in ADDRESSES.iter().zip(self.nodes.iter()) {
            output = output.replace(&format!("127.0.0.1:{}", server.port()), address);
        }
        output
    }

    /// Runs a command, and returns what it prints. Fails the test when the command fails.
    fn run(&mut self, command: &str) -> String {
        let mut typed = command.to_owned();
        for (address, url) in ADDRESSES.iter().zip(self.nodes.urls()) {
            typed = typed.replace(&format!("redis://{address}"), &url);
        }
        let before = self.output().len();
        writeln!(self.input, "{typed}\necho \"ended: $?\"").unwrap();
        let begun = Instant::now();
        loop {
            let output = self.output();
            if let Some((printed, status)) = output[before..].split_once("ended: ")
                && status.ends_with('\n')
            {
                assert_eq!(status, "0\n", "{command}:\n{printed}");
                return printed.to_owned();
            }
            assert!(begun.elapsed() < 2 * LIMIT, "it does not end: {command}\n{output}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Runs the commands of a step. The last one runs again until it prints what it should: what it shows may
    /// take a moment.
    fn check(&mut self, step: &Step) {
        let (last, first) = step.commands.split_last().unwrap();
        let first: String = first.iter().map(|command| self.run(command)).collect();
        let begun = Instant::now();
        loop {
            let printed = first.clone() + &self.run(last);
            if step.prints.as_ref().is_none_or(|prints| is_like(&printed, prints)) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{:#?} prints:\n{printed}", step);
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With all that runs in the background. `redlock run` first ends its command, which is in a group of its own.
        let group = Pid::from_child(&self.process);
        let _ = kill_process_group(group, Signal::TERM);
        let _ = self.process.wait();
        let begun = Instant::now();
        while test_kill_process_group(group).is_ok() && begun.elapsed() < LIMIT {
            sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The folder of the programs, with the command line in it.
fn programs() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_cron")).parent().unwrap().to_owned();
    // A build of all packages has just made it: to build it without the features of the others takes as long as
    // these tests do, and the next build of all packages makes it once more.
    if std::env::var_os("REDLOCK_PROGRAMS_BUILT").is_none() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--package", "redlock-cli", "--all-features"])
            .args((!cfg!(debug_assertions)).then_some("--release"))
            .status();
        assert!(built.unwrap().success(), "the command line");
    }
    assert!(programs.join("redlock").is_file(), "{}", programs.display());
    programs
}

/// Every page that has commands.
fn pages() -> Vec<(String, String)> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![workspace.join("README.md"), workspace.join("redlock-cli/README.md")];
    for folder in ["docs", "docs/manual"] {
        let entries = fs::read_dir(workspace.join(folder)).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    paths.retain(|path| path.extension().is_some_and(|it| it == "md"));
    paths.sort_unstable();
    paths
        .into_iter()
        .map(|it| (it.display().to_string(), fs::read_to_string(it).unwrap()))
        .collect()
}

#[test]
fn every_command_of_the_documents_does_what_they_say() {
    let programs = programs();
    let mut commands = 0;
    for (path, page) in pages() {
        let steps = steps(&page);
        if steps.is_empty() {
            continue;
        }
        println!("{path}");
        let mut shell = Shell::start(&programs);
        for step in steps {
            println!("{step:#?}");
            commands += step.commands.len();
            shell.check(&step);
        }
    }
    assert!(commands > 20, "{commands}");
}

#[test]
fn a_pattern_stands_for_any_text_of_a_line() {
    for (text, pattern, is) in [
        ("a\n", "a\n", true),
        ("a b c\n", "a ... c\n", true),
        ("a b c\n", "a ... d\n", false),
        ("a\nb\n", "a...b\n", false),
        ("x1y2z\n", "x...y...z\n", true),
        ("", "...", true),
    ] {
        assert_eq!(is_like(text, pattern), is, "{text:?} {pattern:?}");
    }
}
