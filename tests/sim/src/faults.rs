//! The faults, and their ends.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    ledger::Doomed,
    network::{Cut, Refuses},
    plan::{Blow, Fault, Planned},
    world::{World, ms},
};

/// Lets a fault strike after its pause.
pub(super) fn strike(world: &Arc<World>, planned: Planned) {
    let Planned { after, span, fault, .. } = planned;
    world.later(after, move |world| {
        if world.is_over() {
            return;
        }
        world.log.count(|stats| stats.faults[fault.kind()] += 1);
        world.log.note(
            [20, fault.kind() as u64],
            || "**".to_owned(),
            || format!("{fault:?} for {span} ms"),
        );
        begin(world, fault, span);
    });
}

fn begin(world: &Arc<World>, fault: Fault, span: u64) {
    match fault {
        Fault::Link { client, node, cut } => isolate(world, client, node, 1, cut, span),
        Fault::Partition { client, first, count, cut } => {
            isolate(world, client, first, count, cut, span);
        }
        Fault::Unreachable { node } => {
            for client in world.clients() {
                isolate(world, client.number, node, 1, Cut::Both, span);
            }
        }
        Fault::Reset { client, node } => {
            let client = world.client(client).number;
            world.network.reset(client, node % world.network.nodes());
        }
        Fault::Restart { node, empty } => restart(world, node, empty, span),
        Fault::RollingRestart { first, count, empty } => {
            let settings = world.plan.settings;
            // The next node follows once the last is back and holds were renewed there.
            let apart = span + settings.max_ttl + 1000;
            for number in 0..count {
                world.later(number as u64 * apart, move |world| {
                    restart(world, first + number, empty, span);
                });
            }
        }
        Fault::Hang { node } => {
            let node = node % world.network.nodes();
            world.network.hang(node);
            world.later(span, move |world| world.network.resume(node));
        }
        Fault::Slow { node, delay } => {
            let node = node % world.network.nodes();
            world.network.slow(node, delay);
            world.later(span, move |world| world.network.slow(node, 0));
        }
        Fault::Flush => flush(world),
        Fault::FlushLocks { first, count } => {
            let all = world.network.nodes();
            let nodes = (first..first + count).map(move |node| node % all);
            lose_locks(world, nodes.clone());
            if span > 0 {
                world.later(span, move |world| bring_locks_back(world, nodes));
            }
        }
        Fault::Stop { client } => {
            let client = world.client(client);
            world.stop(&client);
            world.later(span, move |world| world.resume(&client));
        }
        Fault::Freeze { client } => {
            let client = world.client(client);
            world.freeze(&client);
            world.later(span, move |world| world.resume(&client));
        }
        Fault::Step { client } => {
            let client = world.client(client);
            client.disturbed.fetch_add(1, Relaxed);
            client.clock.step(ms(span));
            world.ledger.wall_is_off(&client.clock);
        }
        Fault::Crash { client } => {
            let client = world.client(client);
            world.crash(&client);
        }
        Fault::QueueNode { key, blow } => {
            let node = world.ledger.queue_node(key);
            match blow {
                Blow::Stops { empty } => restart(world, node, empty, span),
                Blow::Hangs => begin(world, Fault::Hang { node }, span),
                Blow::IsCutOff => begin(world, Fault::Unreachable { node }, span),
                Blow::Resets => {
                    for client in world.clients() {
                        world.network.reset(client.number, node);
                    }
                }
            }
        }
        Fault::Refuse { node, all } => {
            let node = node % world.network.nodes();
            world.network.refuse(node, if all { Refuses::All } else { Refuses::WhatTakesMemory });
            world.later(span, move |world| world.network.refuse(node, Refuses::Nothing));
        }
        Fault::SetBack { node } => {
            world.network.set_back(node % world.network.nodes(), ms(span));
        }
        Fault::Front { stops } => world.ledger.doom_next_front(stops, span),
    }
}

/// These nodes lose all locks, and keep the counters.
pub(super) fn lose_locks(world: &World, nodes: impl ExactSizeIterator<Item = usize>) {
    if nodes.len() > 0 {
        world.ledger.locks_are_lost();
    }
    nodes.for_each(|node| world.network.flush_locks(node));
}

/// The lost locks are set again, each on the nodes where no other lock is in its place.
pub(super) fn bring_locks_back(world: &World, nodes: impl Iterator<Item = usize>) {
    for node in nodes {
        let back = world.network.bring_locks_back(node);
        world.ledger.locks_are_back(node, &back);
    }
}

/// Crashes or stops the clients that are to crash or stop with their turn.
pub(super) async fn strike_fronts(world: Arc<World>) {
    loop {
        let Doomed { client, stops, span } = world.ledger.doomed().await;
        if world.is_over() {
            continue;
        }
        let client = world.client(client);
        if stops {
            world.stop(&client);
            world.later(span, move |world| world.resume(&client));
        } else {
            world.crash(&client);
        }
    }
}

/// Cuts a client off from so many nodes.
pub(super) fn isolate(
    world: &Arc<World>,
    client: usize,
    first: usize,
    count: usize,
    cut: Cut,
    span: u64,
) {
    let client = world.client(client).number;
    let nodes = world.network.nodes();
    for node in (first..first + count.min(nodes)).map(|node| node % nodes) {
        world.network.cut(client, node, cut);
        world.later(span, move |world| world.network.heal(client, node));
    }
}

fn restart(world: &Arc<World>, node: usize, empty: bool, span: u64) {
    if world.is_over() {
        return;
    }
    let node = node % world.network.nodes();
    world.network.stop(node);
    world.later(span, move |world| {
        world.network.start(node, empty);
        if empty {
            world.ledger.restarted_empty();
        }
    });
}

/// Deletes all keys on all nodes. A holder learns of it at the next renewal that a quorum answers, or
/// when its validity ends, which is after one ttl at most.
fn flush(world: &Arc<World>) {
    let max_ttl = world.plan.settings.max_ttl;
    world.ledger.flush(world.now() + max_ttl + max_ttl / 20 + 10);
    for node in 0..world.network.nodes() {
        world.network.flush(node);
    }
}
