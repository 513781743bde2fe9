//! What is counted under which label, and since when.

use super::*;

#[test]
fn a_wait_counts_from_the_call_also_before_the_first_connections() {
    recorded(|seen| async move {
        let nodes = nodes();
        nodes.iter().for_each(|node| node.slow(300 * MS));
        let redlock = Redlock::builder().nodes(&nodes).node_timeout(1000 * MS).build().unwrap();
        drop(redlock.lock(name("a")).label("a").await.unwrap());
        let waited = value(&seen, "redlock_wait_duration_seconds_sum{label=\"a\"}");
        assert!(waited > 0.25, "{waited}");
    });
}

#[test]
fn requests_inside_of_a_body_are_counted_under_their_label() {
    recorded(|seen| async move {
        let redlock = client(&nodes());
        let inner = || redlock.lock(name("a")).label("inner");
        let body = async |_: &LockHandle| {
            inner().run(async |_| ()).await.unwrap();
            assert!(inner().await.unwrap_err().is_held());
        };
        redlock.lock(name("a")).label("outer").run(body).await.unwrap();
        for outcome in ["joined", "held"] {
            let of = format!("redlock_acquires_total{{label=\"inner\",outcome=\"{outcome}\"}}");
            assert_eq!(value(&seen, &of), 1.0, "{outcome}");
        }
    });
}

#[test]
fn all_losses_are_shown_before_there_is_one() {
    recorded(|seen| async move {
        let redlock = client(&nodes());
        drop(redlock.lock(name("a")).label("a").await.unwrap());
        let text = seen.render();
        for reason in ["expired", "refused", "max_hold", "shutdown"] {
            let line = format!("redlock_losses_total{{label=\"a\",reason=\"{reason}\"}} 0");
            assert!(text.contains(&line), "{reason}: {text}");
        }
    });
}
