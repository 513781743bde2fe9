//! What native compare commands save: the same client on one Valkey 9.1, as a user that may run
//! `DELIFEQ`, and as one that may not and gets scripts.

use std::{path::Path, time::Duration};

use redlock_tests::{Server, packages};

use super::{Bench, Case, Flavor, Workload};
use crate::{
    client::{Client, Visit, Which},
    load,
    metric::{Metric, Sample},
    servers, stats,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "native",
    about: "one lock and its release on 1 node (Valkey 9.1), by DELIFEQ and by script",
    rounds: (5, 1),
    cases,
};

/// The user of each kind, by what it deletes with.
const USERS: [(&str, &str); 2] = [("DELIFEQ", "+delifeq"), ("script", "-delifeq")];

const TASKS: [usize; 2] = [1, 16];

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let Some(program) = packages::valkey("native") else { return Vec::new() };
    let mut cases = Vec::new();
    for tasks in TASKS {
        for (name, rule) in USERS {
            let program = program.clone();
            let plural = if tasks == 1 { "" } else { "s" };
            cases.push(Case {
                label: format!("{tasks} task{plural}, {name}"),
                clients: &[Which::Ours],
                sample: Box::new(move |which| {
                    which.visit(Native { bench, program: &program, rule, tasks })
                }),
            });
        }
    }
    cases
}

struct Native<'a> {
    bench: &'a Bench,
    program: &'a Path,
    rule: &'static str,
    tasks: usize,
}

impl Visit for Native<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_millis(1000), Duration::from_millis(300));
        let server = Server::builder().program(self.program).start();
        let rules = ["on", ">p", "~*", "&*", "+@all", self.rule];
        server.command(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
        let urls = [format!("redis://app:p@{}", server.address())];
        Flavor::MultiThread.runtime().block_on(async {
            let client = C::open(&urls).await;
            client.ready().await;
            load::uncontended(&client, self.tasks, span / 4).await;
            let servers = std::slice::from_ref(&server);
            let before = servers::count(servers);
            let done = load::uncontended(&client, self.tasks, span).await;
            let counted = servers::count(servers).since(before);
            let locks = done.latencies.len() as f64;
            let mut sample = vec![
                (Metric::Servers, counted.processor / locks),
                (Metric::PerSecond, locks / done.elapsed.as_secs_f64()),
            ];
            sample.extend(stats::median(&done.latencies).map(|p50| (Metric::P50, p50)));
            sample
        })
    }
}
