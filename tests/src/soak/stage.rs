//! Servers, links and workers, and how they are disturbed.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

use super::{
    NODES, WORKERS,
    fault::{Fault, LinkTrouble, ServerTrouble, Trouble, WorkerTrouble},
    worker::Orders,
};
use crate::{Flow, Nodes, Proxy, process::Process};

/// Everything that a run consists of. Dropping it ends it all.
#[derive(Debug)]
pub(super) struct Stage {
    nodes: Nodes,
    /// By worker, then by node.
    links: Vec<Vec<Proxy>>,
    workers: Vec<Mutex<Worker>>,
    busy: Mutex<Busy>,
}

/// A place among the workers, and the process that has it.
#[derive(Debug)]
struct Worker {
    orders: Orders,
    /// The number of the process that has the place now, from 0.
    life: u64,
    /// `None` while killed.
    process: Option<Process>,
}

/// What a fault has in its hands, so that the next one leaves it alone.
#[derive(Debug, Default)]
struct Busy {
    nodes: [bool; NODES],
    links: [[bool; NODES]; WORKERS],
    workers: [bool; WORKERS],
}

/// A worker as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// `place.life`, both counted from 0.
    pub(super) name: String,
    pub(super) process: i32,
}

impl Stage {
    pub(super) fn set_up(directory: &Path, seed: u64, restarts: &str) -> Self {
        let nodes = Nodes::start(NODES);
        let links: Vec<Vec<Proxy>> = (0..WORKERS).map(|_| nodes.proxies()).collect();
        let worker = |(place, links): (usize, &Vec<Proxy>)| {
            let orders = Orders {
                name: place.to_string(),
                seed: seed ^ u64::try_from(place).unwrap(),
                directory: directory.to_owned(),
                restarts: restarts.to_owned(),
                urls: links.iter().map(Proxy::url).collect(),
            };
            Mutex::new(Worker { process: Some(orders.start(0)), life: 0, orders })
        };
        let workers = links.iter().enumerate().map(worker).collect();
        Self { nodes, links, workers, busy: Mutex::default() }
    }

    /// The workers that are there now.
    pub(super) fn workers(&self) -> Vec<Seen> {
        let seen = |worker: &Mutex<Worker>| {
            let worker = lock(worker);
            let process = worker.process.as_ref()?.id();
            Some(Seen { name: worker.orders.life(worker.life), process })
        };
        self.workers.iter().filter_map(seen).collect()
    }

    /// Takes what the fault needs; false when another fault has some of it.
    pub(super) fn take(&self, fault: &Fault) -> bool {
        let mut busy = lock(&self.busy);
        if busy.of(fault).iter().any(|part| **part) {
            return false;
        }
        busy.of(fault).into_iter().for_each(|part| *part = true);
        true
    }

    /// Does what the fault says for as long as it says, and makes it good again.
    pub(super) fn suffer(&self, fault: &Fault) {
        match &fault.trouble {
            Trouble::Servers { nodes, what } => thread::scope(|scope| {
                for node in nodes {
                    scope.spawn(|| self.disturb_server(*node, *what, fault));
                }
            }),
            Trouble::Links { worker, nodes, what } => {
                let links: Vec<_> = nodes.iter().map(|node| &self.links[*worker][*node]).collect();
                disturb_links(&links, *what, fault);
            }
            Trouble::Worker { worker, what } => self.disturb_worker(*worker, *what, fault),
        }
        lock(&self.busy).of(fault).into_iter().for_each(|part| *part = false);
    }

    fn disturb_server(&self, node: usize, what: ServerTrouble, fault: &Fault) {
        let server = &self.nodes[node];
        match what {
            ServerTrouble::Emptied => {
                server.kill();
                thread::sleep(fault.lasts);
                server.restart_empty();
            }
            ServerTrouble::Restarted | ServerTrouble::Crashed => {
                if what == ServerTrouble::Restarted {
                    server.command(&["SAVE"]);
                }
                server.kill();
                thread::sleep(fault.lasts);
                server.start_again();
            }
            ServerTrouble::Stopped => {
                server.pause();
                thread::sleep(fault.lasts);
                server.resume();
            }
            ServerTrouble::Paused(mode) => {
                let lasts = fault.lasts.as_millis().to_string();
                server.command(&["CLIENT", "PAUSE", &lasts, mode]);
                thread::sleep(fault.lasts);
                // It answers once the pause is over: then the next fault may come.
                server.command(&["PING"]);
            }
        }
    }

    fn with_process(&self, place: usize, act: impl FnOnce(&Process)) {
        if let Some(process) = &lock(&self.workers[place]).process {
            act(process);
        }
    }

    fn disturb_worker(&self, place: usize, what: WorkerTrouble, fault: &Fault) {
        match what {
            WorkerTrouble::Stopped => {
                self.with_process(place, Process::pause);
                thread::sleep(fault.lasts);
                self.with_process(place, Process::resume);
            }
            WorkerTrouble::Killed => {
                let killed = lock(&self.workers[place]).process.take();
                drop(killed);
                thread::sleep(fault.lasts);
                let mut worker = lock(&self.workers[place]);
                worker.life += 1;
                worker.process = Some(worker.orders.start(worker.life));
            }
        }
    }
}

fn disturb_links(links: &[&Proxy], what: LinkTrouble, fault: &Fault) {
    let each = |act: &dyn Fn(&Proxy)| links.iter().for_each(|link| act(link));
    let flow = |requests: Flow, replies: Flow| {
        each(&|link| {
            link.requests(requests);
            link.replies(replies);
        });
    };
    match what {
        LinkTrouble::Flow { requests, replies } => {
            flow(requests, replies);
            thread::sleep(fault.lasts);
            flow(Flow::Pass, Flow::Pass);
        }
        LinkTrouble::Cut => each(&Proxy::cut),
        LinkTrouble::Refused => {
            each(&Proxy::refuse);
            each(&Proxy::cut);
            thread::sleep(fault.lasts);
            each(&Proxy::accept);
        }
    }
}

/// What the workers print: the reason, when one of them panics.
pub(super) fn words_file(directory: &Path) -> PathBuf {
    directory.join("words")
}

impl Orders {
    /// The name of the process that has this place in this life.
    fn life(&self, life: u64) -> String {
        format!("{}.{life}", self.name)
    }

    fn start(&self, life: u64) -> Process {
        let own = Self { name: self.life(life), seed: self.seed ^ (life << 32), ..self.clone() };
        let program = std::env::current_exe().unwrap();
        let words = [super::command::WORKER.to_owned()].into_iter().chain(own.words());
        Process::start(program.to_str().unwrap(), words, &words_file(&self.directory))
    }
}

impl Busy {
    /// What the fault needs.
    fn of(&mut self, fault: &Fault) -> Vec<&mut bool> {
        match &fault.trouble {
            Trouble::Servers { nodes, .. } => parts(&mut self.nodes, nodes),
            Trouble::Links { worker, nodes, .. } => parts(&mut self.links[*worker], nodes),
            Trouble::Worker { worker, .. } => vec![&mut self.workers[*worker]],
        }
    }
}

fn parts<'a>(all: &'a mut [bool], wanted: &[usize]) -> Vec<&'a mut bool> {
    let wanted = |index: &usize| wanted.contains(index);
    all.iter_mut().enumerate().filter(|(index, _)| wanted(index)).map(|(_, part)| part).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
