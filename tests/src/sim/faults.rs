//! What goes wrong, one thing after the other and several at a time.

use std::{rc::Rc, time::Duration};

use redlock_core::simulation::Chance;
use tokio::{task::spawn_local, time::sleep};

use super::world::World;

/// Strikes until it is dropped.
pub(super) async fn strike(world: Rc<World>, mut chance: Chance) {
    // Some schedules are calm: what goes wrong there is nobody else's fault.
    let pace = [40, 100, 400, 5000][chance.below(4) as usize];
    loop {
        sleep(chance.ms(1, pace)).await;
        // From a moment to well past the ttl.
        let ttl = world.ttl.as_millis() as u64;
        let span = match chance.below(3) {
            0 => chance.ms(1, 30),
            1 => chance.ms(ttl / 2, ttl),
            _ => chance.ms(ttl, 3 * ttl),
        };
        one(&world, &mut chance, span);
    }
}

fn one(world: &Rc<World>, chance: &mut Chance, span: Duration) {
    let record = &world.record;
    let client = chance.below(world.clients.len() as u64) as usize;
    let node = chance.below(world.nodes.len() as u64) as usize;
    let (name, server) = (&world.clients[client].name, node);
    if world.clients[client].is_out() {
        return;
    }
    let link = &world.clients[client].links[node];
    let until = |world: &Rc<World>, undo: fn(&World, usize, usize)| {
        let world = Rc::clone(world);
        spawn_local(async move {
            sleep(span).await;
            undo(&world, client, node);
        });
    };
    match chance.below(13) {
        0 => {
            record.fault("slow way", || format!("{name} to node {server} for {span:?}"));
            link.latency(Duration::from_millis(1), chance.ms(5, 60));
            until(world, |world, client, node| {
                let (least, most) = (Duration::from_micros(50), Duration::from_micros(300));
                world.clients[client].links[node].latency(least, most);
            });
        }
        1 => {
            let (out, back) =
                [(true, false), (false, true), (true, true)][chance.below(3) as usize];
            record.fault("held way", || {
                format!("{name} to node {server} for {span:?}: out {out}, back {back}")
            });
            link.hold(out, back);
            until(world, |world, client, node| world.clients[client].free_link(node));
        }
        2 => {
            record.fault("cut", || format!("{name} to node {server}"));
            link.cut();
        }
        3 => {
            let (out, back) =
                [(true, false), (false, true), (true, true)][chance.below(3) as usize];
            // From all, or from some: a majority of them is what counts.
            let cut: Vec<usize> = match chance.below(2) {
                0 => (0..world.nodes.len()).collect(),
                _ => (0..world.nodes.len()).filter(|_| !chance.one_in(3)).collect(),
            };
            record.fault("partition", || {
                format!("{name} from nodes {cut:?} for {span:?}: out {out}, back {back}")
            });
            for node in cut {
                world.clients[client].links[node].hold(out, back);
            }
            until(world, |world, client, _| world.clients[client].free_links());
        }
        4 => {
            record.fault("node down", || format!("node {server} for {span:?}, keeps its data"));
            world.nodes[node].stop();
            until(world, |world, _, node| world.nodes[node].start());
        }
        5 => {
            record.fault("node restarted", || format!("node {server}, empty"));
            world.nodes[node].restart_empty();
        }
        6 => {
            record.fault("node down", || format!("node {server} for {span:?}, comes back empty"));
            world.nodes[node].stop();
            world.nodes[node].clear();
            until(world, |world, _, node| world.nodes[node].start());
        }
        7 => {
            record.fault("node hung", || format!("node {server} for {span:?}"));
            world.nodes[node].hang();
            until(world, |world, _, node| world.nodes[node].resume());
        }
        8 => {
            record.fault("client paused", || format!("{name} for {span:?}"));
            world.clients[client].pause();
            until(world, |world, client, _| world.clients[client].resume());
        }
        9 => {
            record.fault("client frozen", || format!("{name} for {span:?}, its clock too"));
            world.clients[client].pause();
            world.clients[client].clock.freeze();
            until(world, |world, client, _| world.clients[client].resume());
        }
        10 if world.clients.iter().filter(|client| !client.crashed.get()).count() > 1 => {
            record.fault("crash", || name.clone());
            let client = &world.clients[client];
            client.crashed.set(true);
            client.hold_links(true, true);
            client.tasks.borrow().iter().for_each(tokio::task::AbortHandle::abort);
        }
        11 => {
            record.fault("release_all", || name.clone());
            let world = Rc::clone(world);
            spawn_local(async move { world.clients[client].locks.release_all().await });
        }
        _ if chance.one_in(6) => {
            let grace = chance.ms(0, 200);
            record.fault("shutdown", || format!("{name} after {grace:?}"));
            let world = Rc::clone(world);
            spawn_local(async move { world.clients[client].locks.shutdown(grace).await });
        }
        _ => {}
    }
}
