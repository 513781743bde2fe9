//! What an operator sees on a dashboard, as Prometheus would scrape it: over nodes in memory on
//! paused time.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

mod beside_each_other;
mod labels;

use std::{
    collections::BTreeSet,
    future::{Future, IntoFuture},
    time::Duration,
};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use redlock_core::{LockError, LockHandle, LockRequest, MemoryNode, Redlock, Restarts};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// Part of every resource here, and of nothing else: a resource is never a label.
const SECRET: &str = "customer-4711";

/// Runs a test with a recorder of its own.
fn recorded<F: Future<Output = ()>>(test: impl FnOnce(PrometheusHandle) -> F) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    runtime().block_on(test(recorder.handle()));
    let text = recorder.handle().render();
    assert!(!text.contains(SECRET), "a resource is a label:\n{text}");
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap()
}

/// The value of one line, which begins with this name and these labels, in their order; zero when
/// there is none.
fn value(of: &PrometheusHandle, name: &str) -> f64 {
    let text = of.render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

fn nodes() -> [MemoryNode; 3] {
    std::array::from_fn(|_| MemoryNode::new())
}

fn client(nodes: &[MemoryNode]) -> Redlock {
    let builder = Redlock::builder().nodes(nodes).ttl(3000 * MS).wait(1000 * MS);
    builder.restarts(Restarts::Trusted).build().unwrap()
}

fn name(key: &str) -> String {
    format!("{key}:{SECRET}")
}

#[test]
fn every_outcome_of_a_request_is_counted_once() {
    recorded(|seen| async move {
        let nodes = nodes();
        let (redlock, other) = (client(&nodes), client(&nodes));
        let acquires = |outcome: &str| {
            let labels = format!("{{label=\"invoice\",outcome=\"{outcome}\"}}");
            let of = |name: &str| value(&seen, &format!("{name}{labels}"));
            let count = of("redlock_acquires_total");
            assert_eq!(count, of("redlock_acquire_duration_seconds_count"), "{outcome}");
            (count, of("redlock_acquire_duration_seconds_sum"))
        };
        let lock = |redlock: &Redlock| redlock.lock(name("invoice")).label("invoice");

        let guard = lock(&redlock).await.unwrap();
        assert_eq!(acquires("acquired").0, 1.0);
        assert!(lock(&other).wait(500 * MS).await.unwrap_err().is_held());
        let (count, took) = acquires("held");
        assert!(count == 1.0 && (0.5..0.7).contains(&took), "{count} {took}");
        drop(tokio::time::timeout(100 * MS, lock(&other)).await);
        let (count, took) = acquires("cancelled");
        assert!(count == 1.0 && (0.1..0.2).contains(&took), "{count} {took}");
        let error = redlock.lock("").label("invoice").await.unwrap_err();
        assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
        assert_eq!(acquires("misused").0, 1.0);
        let body = redlock.lock("").label("invoice").run(async |_| ());
        let error = body.await.unwrap_err();
        assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
        assert_eq!(acquires("misused").0, 2.0);
        let _ = guard.release().await;

        nodes.iter().for_each(MemoryNode::stop);
        sleep(100 * MS).await;
        assert!(lock(&redlock).await.unwrap_err().is_unavailable());
        assert_eq!(acquires("no_quorum").0, 1.0);
        redlock.shutdown(Duration::ZERO).await;
        assert!(lock(&redlock).await.is_err());
        assert_eq!(acquires("shutting_down").0, 1.0);
        assert_eq!(acquires("acquired").0, 1.0);
    });
}

/// An alert on what grows does not see the first value of a counter that was not there.
#[test]
fn what_has_not_failed_yet_is_counted_as_none() {
    recorded(|seen| async move {
        let redlock = client(&nodes());
        drop(redlock.lock(name("calm")).label("calm").await.unwrap());
        let text = seen.render();
        let node = redlock.health().await[0].node.clone();
        for line in [
            "redlock_losses_total{label=\"calm\",reason=\"expired\"} 0",
            "redlock_losses_total{label=\"calm\",reason=\"refused\"} 0",
            &format!("redlock_node_failures_total{{node=\"{node}\",kind=\"timeout\"}} 0"),
            &format!("redlock_node_odd_expiries_total{{node=\"{node}\"}} 0"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}:\n{text}");
        }
    });
}

#[test]
fn what_is_held_is_a_gauge_and_its_time_a_histogram() {
    recorded(|seen| async move {
        let redlock = client(&nodes());
        let held = || value(&seen, "redlock_held{label=\"a\",mode=\"exclusive\"}");
        let guards = [redlock.lock(name("1")).label("a"), redlock.lock(name("2")).label("a")];
        let mut guards =
            futures_util::future::try_join_all(guards.map(IntoFuture::into_future)).await.unwrap();
        assert_eq!(held(), 2.0);
        sleep(10_000 * MS).await;
        assert!(value(&seen, "redlock_renewals_total{label=\"a\",outcome=\"renewed\"}") >= 10.0);
        let _ = guards.pop().unwrap().release().await;
        assert_eq!(held(), 1.0);
        drop(guards);
        sleep(MS).await;
        assert_eq!(held(), 0.0);
        assert_eq!(value(&seen, "redlock_hold_duration_seconds_count{label=\"a\"}"), 2.0);
        let sum = value(&seen, "redlock_hold_duration_seconds_sum{label=\"a\"}");
        assert!((20.0..20.1).contains(&sum), "{sum}");
        // A request without a label has an empty one, which Prometheus takes for none.
        drop(redlock.lock(name("3")).await.unwrap());
        assert_eq!(value(&seen, "redlock_hold_duration_seconds_count{label=\"\"}"), 1.0);
    });
}

#[test]
fn readers_permits_and_sets_are_told_apart_and_leases_counted() {
    recorded(|seen| async move {
        let nodes = nodes();
        let (redlock, other) = (client(&nodes), client(&nodes));
        let held =
            |mode: &str| value(&seen, &format!("redlock_held{{label=\"a\",mode=\"{mode}\"}}"));
        let acquired = |outcome: &str| {
            let name = "redlock_acquires_total";
            value(&seen, &format!("{name}{{label=\"a\",outcome=\"{outcome}\"}}"))
        };
        let request = |resource: &str| redlock.lock(name(resource)).label("a");
        let readers = [request("r").shared().await.unwrap(), request("r").shared().await.unwrap()];
        let permits =
            [request("p").permits(2).await.unwrap(), request("p").permits(2).await.unwrap()];
        let set = redlock.lock_all([name("1"), name("2")]).label("a").await.unwrap();
        assert_eq!((held("shared"), held("permit"), held("exclusive")), (2.0, 2.0, 1.0));
        assert_eq!(acquired("acquired"), 5.0);

        // Waiters for a permit and for readers are requests that wait, with a place in a queue.
        let lock = |request: LockRequest| tokio::spawn(request.into_future());
        let permit = lock(other.lock(name("p")).permits(2).label("a"));
        let writer = lock(other.lock(name("r")).label("a"));
        sleep(200 * MS).await;
        assert_eq!(value(&seen, "redlock_waiting{label=\"a\"}"), 2.0);
        assert_eq!(value(&seen, "redlock_queue_places"), 2.0);
        let waiting = other.waiting();
        let resources: BTreeSet<_> = waiting.iter().map(|it| it.resource().to_owned()).collect();
        assert_eq!(resources, BTreeSet::from([name("p"), name("r")]));
        drop((readers, permits));
        let (permit, writer) = (permit.await.unwrap().unwrap(), writer.await.unwrap().unwrap());
        assert_eq!((held("shared"), held("permit"), held("exclusive")), (0.0, 1.0, 2.0));
        drop((permit, writer));

        let given = || value(&seen, "redlock_leases_given_total{label=\"a\"}");
        // No client can adopt a permit: it is free again.
        drop(redlock.lock(name("a")).permits(2).label("a").await.unwrap().into_lease());
        assert_eq!(given(), 0.0);
        let lease = set.into_lease();
        assert_eq!((given(), held("exclusive")), (1.0, 0.0));
        let set = other.adopt(lease).await.unwrap();
        // The label does not go with the lease.
        let adopted = "redlock_acquires_total{label=\"\",outcome=\"adopted\"}";
        assert_eq!(value(&seen, adopted), 1.0);
        assert_eq!(value(&seen, "redlock_held{label=\"\",mode=\"exclusive\"}"), 1.0);
        drop(set);
    });
}

#[test]
fn every_loss_has_its_reason_and_ends_a_hold_once() {
    recorded(|seen| async move {
        let nodes = nodes();
        let redlock = client(&nodes);
        let losses = |reason: &str| {
            value(&seen, &format!("redlock_losses_total{{label=\"a\",reason=\"{reason}\"}}"))
        };
        let lock = || redlock.lock(name("a")).label("a");
        let guard = lock().max_hold(1000 * MS).await.unwrap();
        guard.lost().await;
        drop(guard);
        assert_eq!(losses("max_hold"), 1.0);

        let guard = lock().await.unwrap();
        nodes.iter().for_each(MemoryNode::clear);
        guard.lost().await;
        drop(guard);
        assert_eq!(losses("refused"), 1.0);
        assert_eq!(value(&seen, "redlock_renewals_total{label=\"a\",outcome=\"refused\"}"), 1.0);

        let guard = lock().await.unwrap();
        nodes.iter().for_each(MemoryNode::stop);
        guard.lost().await;
        drop(guard);
        assert_eq!(losses("expired"), 1.0);
        assert!(value(&seen, "redlock_renewals_total{label=\"a\",outcome=\"unknown\"}") >= 1.0);

        nodes.iter().for_each(MemoryNode::start);
        sleep(5000 * MS).await;
        let guard = lock().await.unwrap();
        redlock.release_all().await;
        drop(guard);
        assert_eq!(losses("shutdown"), 1.0);

        // Found by its release, which does not change what the body has returned.
        let body = async |_: &LockHandle| nodes.iter().for_each(MemoryNode::clear);
        lock().run(body).await.unwrap();
        assert_eq!(losses("refused"), 2.0);
        lock().run(async |_: &LockHandle| ()).await.unwrap();
        assert_eq!(losses("refused"), 2.0);
        assert_eq!(value(&seen, "redlock_held{label=\"a\",mode=\"exclusive\"}"), 0.0);
        assert_eq!(value(&seen, "redlock_hold_duration_seconds_count{label=\"a\"}"), 6.0);
    });
}

#[test]
fn waiting_shows_how_many_how_long_and_what_woke_them() {
    recorded(|seen| async move {
        let nodes = nodes();
        let (redlock, other) = (client(&nodes), client(&nodes));
        let waiting = || value(&seen, "redlock_waiting{label=\"a\"}");
        let woken = |cause: &str| {
            value(&seen, &format!("redlock_wakeups_total{{label=\"a\",cause=\"{cause}\"}}"))
        };
        let lock = |redlock: &Redlock| redlock.lock(name("a")).label("a");
        let spawn = |redlock: &Redlock| tokio::spawn(lock(redlock).into_future());

        let guard = lock(&redlock).await.unwrap();
        let here = spawn(&redlock);
        sleep(10 * MS).await;
        assert_eq!(waiting(), 1.0);
        drop(guard);
        let guard = here.await.unwrap().unwrap();
        assert_eq!((waiting(), woken("handed_over")), (0.0, 1.0));

        let there = spawn(&other);
        sleep(200 * MS).await;
        assert_eq!(waiting(), 1.0);
        assert_eq!(value(&seen, "redlock_queue_places"), 1.0);
        assert_eq!(value(&seen, "redlock_queue_ahead_count{label=\"a\"}"), 1.0);
        assert_eq!(value(&seen, "redlock_queue_ahead_sum{label=\"a\"}"), 0.0);
        let _ = guard.release().await;
        let guard = there.await.unwrap().unwrap();
        assert_eq!((waiting(), woken("turn")), (0.0, 1.0));
        assert_eq!(value(&seen, "redlock_queue_places"), 0.0);
        assert_eq!(value(&seen, "redlock_wait_duration_seconds_count{label=\"a\"}"), 3.0);
        let waited = value(&seen, "redlock_wait_duration_seconds_sum{label=\"a\"}");
        assert!((0.2..0.25).contains(&waited), "{waited}");
        // A waiter that is dropped does not wait.
        let gone = spawn(&redlock);
        sleep(10 * MS).await;
        assert_eq!(waiting(), 1.0);
        gone.abort();
        let _ = gone.await;
        assert_eq!(waiting(), 0.0);
        drop(guard);
    });
}

#[test]
fn a_node_shows_how_it_is() {
    recorded(|seen| async move {
        let nodes = nodes();
        let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
        let health = redlock.health().await;
        let of = |name: &str| value(&seen, &format!("{name}{{node=\"{}\"}}", health[0].node));
        drop(redlock.lock(name("a")).await.unwrap());
        sleep(100 * MS).await;
        assert_eq!((of("redlock_node_up"), of("redlock_node_sits_out_until_seconds")), (1.0, 0.0));
        assert!(of("redlock_node_round_trip_seconds_count") >= 2.0);
        assert_eq!(of("redlock_node_pending_cleanups"), 0.0);

        let guard = redlock.lock(name("a")).await.unwrap();
        nodes[0].stop();
        sleep(100 * MS).await;
        assert_eq!(of("redlock_node_up"), 0.0);
        drop(guard);
        sleep(10_000 * MS).await;
        assert_eq!(of("redlock_node_pending_cleanups"), 1.0);

        nodes[0].restart_empty();
        sleep(5000 * MS).await;
        assert_eq!((of("redlock_node_up"), of("redlock_node_pending_cleanups")), (1.0, 0.0));
        assert!(of("redlock_node_sits_out_until_seconds") > 1e9, "a Unix time");
    });
}

#[test]
fn commands_that_fail_are_counted_by_kind() {
    recorded(|seen| async move {
        let nodes = nodes();
        let redlock = client(&nodes);
        drop(redlock.lock(name("a")).await.unwrap());
        nodes[0].hang();
        let guard = redlock.lock(name("a")).await.unwrap();
        sleep(200 * MS).await;
        let node = &redlock.health().await[0].node;
        let labels = format!("{{node=\"{node}\",kind=\"timeout\"}}");
        assert!(value(&seen, &format!("redlock_node_failures_total{labels}")) >= 1.0);
        drop(guard);
    });
}

#[test]
fn keys_that_are_gone_before_their_time_are_counted() {
    recorded(|seen| async move {
        let nodes = nodes();
        let redlock = client(&nodes);
        let guard = redlock.lock(name("a")).await.unwrap();
        let node = redlock.health().await[0].node.clone();
        let of = || value(&seen, &format!("redlock_node_odd_expiries_total{{node=\"{node}\"}}"));
        guard.extend(20_000 * MS).await.unwrap();
        assert_eq!(of(), 0.0);
        nodes[0].clear();
        guard.extend(20_000 * MS).await.unwrap();
        sleep(200 * MS).await;
        assert_eq!(of(), 1.0);
        drop(guard);
    });
}

/// The names in the table of the crate's documentation are exactly the exported names.
#[test]
fn the_documentation_lists_what_is_exported() {
    let documented: BTreeSet<&str> = include_str!("../../src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `redlock_")?.split('`').next())
        .collect();
    let sources = [
        include_str!("../../src/metrics/on.rs"),
        include_str!("../../src/metrics/on/node.rs"),
        include_str!("../../src/metrics/on/failures.rs"),
    ];
    let names = sources.iter().flat_map(|source| source.split("\"redlock_").skip(1));
    let exported: BTreeSet<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    assert!(exported.len() > 10);
    assert_eq!(documented, exported);
}
