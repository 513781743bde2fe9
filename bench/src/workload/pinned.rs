//! The client and the servers on processors of their own, or all on one: the scheduler of a small
//! machine moves them about, and other figures include the cost of that.

use std::time::Duration;

use redlock_tests::Server;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::{Bench, Case, Flavor, Workload};
use crate::{
    client::{Client, Visit, Which},
    load,
    metric::Sample,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "pinned",
    about: "free locks with the client and the servers pinned, to one processor or to one each",
    rounds: (5, 2),
    cases,
};

/// Where the client and the servers run, and how much the client does.
#[derive(Debug, Clone, Copy)]
struct Setting {
    label: &'static str,
    nodes: usize,
    tasks: usize,
    /// The servers have another processor than the client.
    apart: bool,
}

const SETTINGS: [Setting; 5] = [
    Setting { label: "1 task on 1 node together", nodes: 1, tasks: 1, apart: false },
    Setting { label: "1 task on 1 node apart", nodes: 1, tasks: 1, apart: true },
    Setting { label: "1 task on 5 nodes apart", nodes: 5, tasks: 1, apart: true },
    Setting { label: "64 tasks on 5 nodes apart", nodes: 5, tasks: 64, apart: true },
    Setting { label: "512 tasks on 5 nodes apart", nodes: 5, tasks: 512, apart: true },
];

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let processors = processors().len();
    let possible = |setting: &Setting| !setting.apart || processors > 1;
    let case = |setting: Setting| Case {
        label: setting.label.to_owned(),
        clients: &[Which::Bare, Which::Ours, Which::Rslock, Which::Sockets],
        sample: Box::new(move |which| which.visit(Fixed { bench, setting })),
    };
    SETTINGS.into_iter().filter(possible).map(case).collect()
}

struct Fixed<'a> {
    bench: &'a Bench,
    setting: Setting,
}

impl Visit for Fixed<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let Self { bench, setting: Setting { nodes, tasks, apart, .. } } = self;
        let span = bench.pick(Duration::from_millis(800), Duration::from_millis(300));
        let _pins = Pins::set(&bench.nodes[..nodes], apart);
        // Its threads inherit the processor of this one.
        Flavor::MultiThread.runtime().block_on(async {
            let client: C = bench.client(nodes, tasks).await;
            load::uncontended(&client, tasks, span).await.sample()
        })
    }
}

/// Where this thread and some servers may run, until it is dropped.
#[derive(Debug)]
struct Pins {
    before: CpuSet,
    servers: Vec<Pid>,
}

impl Pins {
    fn set(servers: &[Server], apart: bool) -> Self {
        let before = sched_getaffinity(None).expect("every thread may run somewhere");
        let servers: Vec<Pid> = servers.iter().filter_map(process).collect();
        let processors = processors();
        let ours = only(processors[0]);
        let theirs = if apart { only(processors[1]) } else { ours };
        for server in &servers {
            sched_setaffinity(Some(*server), &theirs).expect("a server that runs");
        }
        sched_setaffinity(None, &ours).expect("a processor of this thread");
        Self { before, servers }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        for process in std::iter::once(None).chain(self.servers.iter().copied().map(Some)) {
            // A server that has died needs no processor.
            let _ = sched_setaffinity(process, &self.before);
        }
    }
}

/// The processors on which this thread may run.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("every thread may run somewhere");
    (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// The process of a server.
fn process(server: &Server) -> Option<Pid> {
    let info = server.info("server");
    let id = info.lines().find_map(|line| line.strip_prefix("process_id:"))?;
    Pid::from_raw(id.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_taken_out_again() {
        let server = Server::start();
        let before = processors();
        let pins = Pins::set(std::slice::from_ref(&server), false);
        assert_eq!(processors(), before[..1]);
        let of_server = sched_getaffinity(process(&server)).unwrap();
        assert_eq!(of_server, only(before[0]));
        drop(pins);
        assert_eq!(processors(), before);
        assert_eq!(sched_getaffinity(process(&server)).unwrap().count() as usize, before.len());
    }
}
