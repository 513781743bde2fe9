//! Rows 18 and 19: clocks of nodes that jump. No client can prevent the consequences, but each
//! client reports them. Row 9: a machine that was asleep, where the boot clock of a process can be
//! set.

use std::time::Duration;

use redlock_core::{LockError, LostReason, Redlock, Released};
use redlock_tests::{
    ClockShim, Events, LIMIT, Nodes, Peer, Server, before_moving_in_time, skipped, wait_until,
    within,
};

use crate::support::{JOB, LONG, SECOND, wait_until_empty};

const TTL: Duration = Duration::from_secs(30);

/// Nodes whose clocks can be set, and two clients of them. `None` where no such clock can be made.
async fn nodes_with_clocks(row: &str) -> Option<(ClockShim, Nodes, Redlock, Redlock)> {
    let shim = match ClockShim::compile() {
        Ok(shim) => shim,
        Err(reason) => {
            skipped(row, &reason);
            return None;
        }
    };
    let nodes = Nodes::start_as(3, &Server::builder().clock(&shim));
    let client = || nodes.client().ttl(TTL).build().unwrap();
    let (holder, other) = (client(), client());
    nodes.warm_up(&holder).await;
    nodes.warm_up(&other).await;
    Some((shim, nodes, holder, other))
}

#[tokio::test]
async fn row_18_a_minority_whose_clock_jumps_ahead_lets_no_client_in_and_is_noticed() {
    let row = "row_18_a_minority_whose_clock_jumps_ahead_lets_no_client_in_and_is_noticed";
    let events = Events::record();
    let Some((_shim, nodes, holder, other)) = nodes_with_clocks(row).await else { return };
    let guard = holder.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    assert_eq!(events.warnings(), [""; 0]);

    nodes[0].set_clock_ahead(TTL + SECOND);
    assert_eq!(nodes[0].get(JOB), None, "the key should have run out there");
    assert!(other.try_lock("job").await.unwrap_err().is_held());
    guard.extend(TTL).await.unwrap();
    let words = ["odd expiry", "before its time", &nodes[0].address(), JOB];
    wait_until("the jump is told", async || events.warned_of(&words)).await;
    // The key is healed, too.
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_18_a_clock_that_jumps_ahead_by_less_than_the_ttl_is_noticed() {
    let row = "row_18_a_clock_that_jumps_ahead_by_less_than_the_ttl_is_noticed";
    let events = Events::record();
    let Some((_shim, nodes, holder, _)) = nodes_with_clocks(row).await else { return };
    let guard = holder.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes[0].set_clock_ahead(TTL / 3);
    guard.extend(TTL).await.unwrap();
    let words = ["odd expiry", "where at least", &nodes[0].address(), JOB];
    wait_until("the jump is told", async || events.warned_of(&words)).await;
    assert!(!events.warned_of(&[&nodes[1].address()]), "{:?}", events.warnings());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_18_a_majority_whose_clock_jumps_ahead_is_noticed_at_the_next_renewal() {
    let row = "row_18_a_majority_whose_clock_jumps_ahead_is_noticed_at_the_next_renewal";
    let events = Events::record();
    let Some((_shim, nodes, holder, other)) = nodes_with_clocks(row).await else { return };
    let guard = holder.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes[..2].iter().for_each(|node| node.set_clock_ahead(TTL + SECOND));
    // This is the violation: A2 of the guarantee does not hold.
    let next = other.try_lock("job").await.unwrap();
    assert!(guard.is_valid() && next.is_valid(), "no holder could know before a renewal");
    let error = guard.extend(TTL).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error:?}");
    within("lost()", guard.lost()).await;
    for node in &nodes[..2] {
        let words = ["odd expiry", "before its time", &node.address(), JOB];
        wait_until("the jump is told", async || events.warned_of(&words)).await;
    }
    // The old holder takes nothing from the new one.
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    next.extend(TTL).await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_19_clocks_that_are_set_back_are_noticed_and_their_keys_still_released() {
    let row = "row_19_clocks_that_are_set_back_are_noticed_and_their_keys_still_released";
    let events = Events::record();
    let Some((_shim, nodes, holder, _)) = nodes_with_clocks(row).await else { return };
    let guard = holder.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes.iter().for_each(|node| node.set_clock_back(LONG));
    assert!(nodes[0].ttl(JOB).unwrap() > LONG, "the key should linger");
    guard.extend(TTL).await.unwrap();
    for node in nodes.iter() {
        let words = ["odd expiry", "where at most", &node.address(), JOB];
        wait_until("the jump is told", async || events.warned_of(&words)).await;
    }
    assert!(guard.validity() <= TTL, "a wrong clock lengthens nothing");
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_19_a_key_that_lingers_is_waited_for_no_longer_than_wanted() {
    let row = "row_19_a_key_that_lingers_is_waited_for_no_longer_than_wanted";
    let Some((_shim, nodes, holder, other)) = nodes_with_clocks(row).await else { return };
    let guard = holder.lock("job").ttl(6 * SECOND).auto_extend(false).await.unwrap();
    let lost = guard.lost();
    // Its holder never comes back to release it.
    std::mem::forget(guard);
    nodes.iter().for_each(|node| node.set_clock_back(LONG));
    within("the validity", lost).await;
    let error = within("lock", other.lock("job").wait(SECOND)).await.unwrap_err();
    assert!(error.is_held(), "{error:?}");
    // Only time, or an operator, removes the key.
    nodes.iter().for_each(|node| node.set_clock_ahead(Duration::ZERO));
    let guard = other.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

/// Rust's own clock stands still while a machine sleeps, and the nodes do not: the boot clock counts
/// (rule 2).
#[tokio::test]
async fn row_09_time_that_a_machine_slept_comes_off_the_validity() {
    let Some(way) = before_moving_in_time("row_09") else { return };
    let nodes = Nodes::start(3);
    let urls = nodes.urls();
    let program = [env!("CARGO_BIN_EXE_redlock-process"), "suspend", "job"];
    let words: Vec<&str> =
        way.iter().copied().chain(program).chain(urls.iter().map(String::as_str)).collect();
    let mut sleeper = Peer::start(words[0], &words[1..]);
    assert_eq!(sleeper.line().await, "true false", "valid before and after");
}
