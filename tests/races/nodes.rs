//! The outbox of a node, its pipe, the task that serves it, and callers that send for themselves.

use crate::world::{Thread, all, in_any_order, nodes};

/// A job leaves by its caller or by the task of the node: between the two none is forgotten.
#[test]
fn jobs_of_many_threads_are_all_sent() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        all((0..3).map(|key| {
            let client = client.clone();
            move || {
                client.run(async |redlock| {
                    let guard = redlock.lock(format!("r{key}")).await.unwrap();
                    guard.release().await.unwrap();
                });
            }
        }));
    });
}

/// The answers of three nodes are counted by the tasks of the nodes at once, and the caller hears of
/// the vote that decides.
#[test]
fn votes_that_come_at_once_settle_a_round() {
    in_any_order(|world| {
        let client = world.client(&nodes(3));
        client.run(async |redlock| {
            let guard = redlock.lock("r").await.unwrap();
            guard.extend(world.ttl()).await.unwrap();
            guard.release().await.unwrap();
        });
    });
}

/// A node goes down while a thread hands a job in: the job is answered, sent or not.
#[test]
fn a_job_that_meets_the_end_of_its_connection_is_answered() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let client = world.client(&nodes);
        let node = nodes[0].clone();
        let asks = {
            let client = client.clone();
            move || client.run(async |redlock| drop(redlock.try_lock("r").await))
        };
        all([Box::new(asks) as Thread, Box::new(move || node.stop())]);
    });
}
