//! Rows 43 and 44: names and times at their limits.

use std::time::Duration;

use redlock_core::{LockError, Redlock, Released};
use redlock_tests::Server;

use crate::support::SECOND;

/// A client of a node without a server: a refusal that needs no node happens all the same.
fn without_a_server() -> redlock_core::Builder {
    Redlock::builder().nodes(["redis://127.0.0.1:1"])
}

#[tokio::test]
async fn row_43_an_unusable_resource_is_refused_before_anything_is_sent() {
    let client = without_a_server().build().unwrap();
    for resource in [String::new(), "x".repeat(1025), "x".repeat(1 << 20), "ä".repeat(513)] {
        let error = client.lock(resource).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidResource { .. }), "{error:?}");
        assert!(error.to_string().len() < 512, "cut to a readable length: {error}");
    }
    let longest = client.try_lock("x".repeat(1024)).await.unwrap_err();
    assert!(matches!(longest, LockError::NoQuorum { .. }), "{longest:?}");
}

#[tokio::test]
async fn row_43_odd_resources_are_locked_as_they_are() {
    let node = Server::start();
    let client = redlock_tests::patient([node.url()]).build().unwrap();
    let longest = "x".repeat(1024);
    let odd = ["a b", "a\r\nFLUSHALL\r\n", "{a}{b}", "{}", "ключ", "*", "\0\u{1}\u{7f}", "\"'\\"];
    for resource in odd.into_iter().chain([longest.as_str()]) {
        let bystander = format!("redlock:{resource}.");
        node.command(&["SET", &bystander, "1", "PX", "60000"]);
        let guard = client.lock(resource).await.unwrap();
        assert!(node.get(&format!("redlock:{resource}")).is_some(), "{resource:?}");
        guard.extend(SECOND * 60).await.unwrap();
        assert!(client.try_lock(resource).await.unwrap_err().is_held());
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        assert_eq!(node.keys(), [bystander.as_str()], "{resource:?}");
        node.command(&["DEL", &bystander]);
    }
}

#[test]
fn row_44_settings_that_cannot_work_are_refused_by_build() {
    let one = || Redlock::builder().nodes(["redis://127.0.0.1:7101"]);
    let none: [&str; 0] = [];
    let refused = [
        (Redlock::builder().nodes(none), "node"),
        (Redlock::builder().nodes(["redis://h:1", "redis://h:1"]), "h:1"),
        (Redlock::builder().nodes(["redis://"]), "redis://127.0.0.1:6379"),
        (Redlock::builder().nodes(["http://localhost"]), "redis://"),
        (one().node_timeout(SECOND).ttl(2 * SECOND), "3s"),
        (one().ttl(61 * SECOND), "max_ttl"),
        (one().ttl(Duration::ZERO), "ttl"),
        (one().ttl(Duration::from_nanos(1)), "ttl"),
        (one().ttl(Duration::MAX), "max_ttl"),
        (one().ttl(Duration::MAX).max_ttl(Duration::MAX), "max_ttl"),
        (one().ttl(Duration::from_millis(u64::MAX)).max_ttl(Duration::MAX), "max_ttl"),
        (one().node_timeout(Duration::ZERO), "node_timeout"),
        (one().node_timeout(Duration::from_micros(1)).ttl(Duration::from_millis(2)), "no time"),
        (one().clock_drift_factor(0.9999).ttl(10 * SECOND), "no time"),
        (one().clock_drift_factor(1.5), "1.5"),
        (one().clock_drift_factor(-0.1), "-0.1"),
        (one().clock_drift_factor(f64::NAN), "NaN"),
    ];
    for (builder, hint) in refused {
        let shown = format!("{builder:?}");
        let error = builder.build().err();
        let error = error.unwrap_or_else(|| panic!("{shown} was taken"));
        assert!(matches!(error, LockError::Config { .. }), "{shown}: {error:?}");
        assert!(error.to_string().contains(hint), "{error}: no {hint:?}");
    }
    one().build().unwrap();
}

#[tokio::test]
async fn row_44_settings_of_a_request_are_refused_when_it_is_awaited() {
    let client = without_a_server().build().unwrap();
    let lock = || client.lock("job");
    let refused = [
        lock().ttl(Duration::ZERO),
        lock().ttl(Duration::from_nanos(1)),
        lock().ttl(Duration::from_millis(10)),
        lock().ttl(61 * SECOND),
        lock().ttl(Duration::MAX),
        lock().clock_drift_factor(2.0),
        lock().min_hold(61 * SECOND),
        lock().min_hold(Duration::MAX),
        lock().max_hold(Duration::ZERO),
    ];
    for request in refused {
        let shown = format!("{request:?}");
        let error = request.await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn row_44_the_longest_and_the_shortest_times_work() {
    let node = Server::start();
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let client = redlock_tests::patient([node.url()]).max_ttl(year);
    let client = client.retry_delay(Duration::ZERO).retry_jitter(Duration::ZERO).build().unwrap();
    let guard = client.lock("long").ttl(year).wait(Duration::MAX).max_hold(Duration::MAX).await;
    let guard = guard.unwrap();
    let left = node.ttl("redlock:long").unwrap();
    assert!(guard.validity() > year / 2 && left > year / 2, "{guard:?} {left:?}");
    let error = client.lock("long").wait(Duration::from_millis(20)).await.unwrap_err();
    assert!(error.is_held(), "{error:?}");
    assert_eq!(guard.release().await.unwrap(), Released::Ours);

    // Redis takes whole milliseconds, and fractions are not lost.
    let shortest = client.lock("short").ttl(6 * SECOND + Duration::from_nanos(1));
    let guard = shortest.await.unwrap();
    assert!(node.ttl("redlock:short").unwrap() <= 6 * SECOND + Duration::from_millis(1));
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(node.keys(), [""; 0]);
}
