//! The wall clocks of servers and clients, which are set while they run.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{ClockShim, Nodes, chance::Chance};

const HOUR_IN_NS: i64 = 3600 * 1_000_000_000;

/// All of them; without effect where clocks cannot be set.
pub(super) struct Clocks {
    shim: Option<ClockShim>,
    /// How far each server is ahead.
    servers: Vec<Duration>,
    /// The file of each client, which is mapped into its memory.
    clients: Vec<PathBuf>,
    /// How many clients have ended.
    gone: usize,
}

impl Clocks {
    pub(super) fn new(servers: usize) -> Self {
        let shim = ClockShim::compile();
        if let Err(reason) = &shim {
            println!("all clocks stay as they are: {reason}");
        }
        Self {
            shim: shim.ok(),
            servers: vec![Duration::ZERO; servers],
            clients: Vec::new(),
            gone: 0,
        }
    }

    /// All clients so far have ended.
    pub(super) fn forget_clients(&mut self) {
        self.gone += self.clients.drain(..).count();
    }

    pub(super) fn shim(&self) -> Option<&ClockShim> {
        self.shim.as_ref()
    }

    /// What goes before the program of another client, for a clock of its own.
    pub(super) fn before_client(&mut self, directory: &Path) -> Vec<String> {
        let Some(shim) = &self.shim else { return Vec::new() };
        let file = directory.join(format!("clock-{}", self.gone + self.clients.len()));
        fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
        let words = shim.before_program(&file).to_vec();
        self.clients.push(file);
        words
    }

    /// The clocks of a majority of servers jump ahead by more than `ttl`, so that their locks are
    /// gone; or a client's clock is wrong by up to an hour; or all clocks are right again. False
    /// where clocks cannot be set.
    pub(super) fn jump(&mut self, nodes: &Nodes, ttl: Duration, chance: &mut Chance) -> bool {
        if self.shim.is_none() {
            return false;
        }
        match chance.below(5) {
            0 => self.set_right(nodes),
            1 | 2 => {
                let share = i64::try_from(chance.below(201)).unwrap() - 100;
                let client = &self.clients[chance.below(self.clients.len())];
                set(client, HOUR_IN_NS / 100 * share);
            }
            _ => {
                for node in chance.distinct(nodes.quorum(), nodes.len()) {
                    self.servers[node] += ttl + chance.millis(100, 1500);
                    nodes[node].set_clock_ahead(self.servers[node]);
                }
            }
        }
        true
    }

    pub(super) fn set_right(&mut self, nodes: &Nodes) {
        if self.shim.is_none() {
            return;
        }
        self.servers.fill(Duration::ZERO);
        nodes.iter().for_each(|node| node.set_clock_ahead(Duration::ZERO));
        self.clients.iter().for_each(|client| set(client, 0));
    }
}

/// In place: the file is the client's memory.
fn set(client: &Path, ahead: i64) {
    let file = fs::File::options().write(true).open(client).unwrap();
    file.write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
}
