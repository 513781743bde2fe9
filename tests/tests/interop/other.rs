//! A program in another language that takes and releases the lock when it is told to.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
};

use redlock_tests::{Nodes, Server, within};
use tokio::sync::mpsc;

/// Answers `try` with `got` or `held`, `release` with `released`, and `rounds N` with `done`.
pub(crate) struct Other {
    program: Child,
    orders: ChildStdin,
    answers: mpsc::UnboundedReceiver<String>,
    script: PathBuf,
}

impl Other {
    /// The packages `redlock` and `ioredis` of this folder.
    pub(crate) fn node(folder: &Path, nodes: &Nodes, store: &Server) -> Self {
        // Modules are looked for beside the script.
        let script = folder.join(format!("holder.{}.mjs", std::process::id()));
        std::fs::write(&script, include_str!("holder.mjs")).unwrap();
        Self::start(Command::new("node").arg(&script), script, nodes, store)
    }

    /// The package `redis` of this folder.
    pub(crate) fn python(folder: &Path, nodes: &Nodes, store: &Server) -> Self {
        let script = folder.join(format!("holder.{}.py", std::process::id()));
        std::fs::write(&script, include_str!("holder.py")).unwrap();
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", folder).args(["-u"]).arg(&script);
        Self::start(&mut python, script, nodes, store)
    }

    fn start(command: &mut Command, script: PathBuf, nodes: &Nodes, store: &Server) -> Self {
        let ports = [store].into_iter().chain(nodes.iter()).map(|it| it.port().to_string());
        command.args(ports).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let orders = program.stdin.take().unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap());
        let (tell, answers) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { program, orders, answers, script }
    }

    /// Tells it what to do.
    pub(crate) fn begin(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        self.orders.flush().unwrap();
    }

    /// Its next answer.
    pub(crate) async fn answer(&mut self) -> String {
        within("the answer of the other program", self.answers.recv()).await.unwrap_or_default()
    }

    pub(crate) async fn ask(&mut self, order: &str) -> String {
        self.begin(order);
        self.answer().await
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = std::fs::remove_file(&self.script);
    }
}
