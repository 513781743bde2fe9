//! Campaigns on nodes in this process, in paused time.

mod votes;

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::{Arc, Mutex},
};

use futures_util::FutureExt;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::*;
use crate::{FencingToken, MemoryNode, Redlock, testing::nodes};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(3 * SECOND).max_ttl(6 * SECOND).build().unwrap()
}

/// Which replica led when, with which token, in order.
#[derive(Clone, Default)]
struct Terms(Arc<Mutex<Vec<(usize, FencingToken)>>>);

impl Terms {
    fn add(&self, replica: usize, term: &LockHandle) {
        self.0.lock().unwrap().push((replica, term.fencing_token().unwrap()));
    }

    /// The replicas in the order of their terms. Tokens grow from term to term.
    fn replicas(&self) -> Vec<usize> {
        let terms = self.0.lock().unwrap();
        assert!(terms.is_sorted_by(|(_, one), (_, next)| one < next), "{terms:?}");
        terms.iter().map(|(replica, _)| *replica).collect()
    }

    async fn until(&self, count: usize) {
        let waits = async {
            while self.0.lock().unwrap().len() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let led = timeout(HOUR, waits).await;
        assert!(led.is_ok(), "{:?}", self.replicas());
    }
}

/// Leads until it is dropped or shut down.
fn replica(redlock: &Redlock, number: usize, terms: &Terms) -> JoinHandle<LockError> {
    let (redlock, terms) = (redlock.clone(), terms.clone());
    tokio::spawn(async move {
        let led = redlock.lead("scheduler").run::<Infallible, _, _>(|term| {
            terms.add(number, &term);
            pending()
        });
        match led.await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_breaks_ends_its_campaign_with_the_value_and_the_lock_is_free() {
    let redlock = Redlock::in_memory(3);
    let led = redlock.lead("r").label("role").fenced();
    let led = led.run(|term| async move { Break(term.fencing_token()) });
    let token = led.await.unwrap();
    let guard = redlock.try_lock("r").fenced().await.unwrap();
    assert!(token.is_some() && guard.fencing_token() > token);
}

#[tokio::test(start_paused = true)]
async fn after_continue_another_client_leads_first() {
    // The test does not depend on which node keeps the queue: some nodes answer long after a quorum
    // has.
    for delays in [[0; 5], [1; 5], [1, 1, 1, 20, 20]] {
        for role in 0..8 {
            let nodes = delays.map(|ms| {
                let node = MemoryNode::new();
                node.slow(Duration::from_millis(ms));
                node
            });
            take_turns(&nodes, &format!("r{role}")).await;
        }
    }
}

async fn take_turns(nodes: &[MemoryNode], role: &str) {
    let terms = Terms::default();
    let led = (0..3).map(|number| {
        let (redlock, terms, role) = (client(nodes), terms.clone(), role.to_owned());
        tokio::spawn(async move {
            let mut left = 3;
            let led = redlock.lead(role).run(|term| {
                terms.add(number, &term);
                left -= 1;
                async move {
                    sleep(SECOND).await;
                    if left == 0 { Break(()) } else { Continue(()) }
                }
            });
            led.await.unwrap();
        })
    });
    for led in led.collect::<Vec<_>>() {
        led.await.unwrap();
    }
    let replicas = terms.replicas();
    assert_eq!(replicas.len(), 9);
    assert!(replicas.windows(2).all(|pair| pair[0] != pair[1]), "{replicas:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_resigns_and_the_next_client_leads_three_round_trips_later() {
    let nodes = nodes(3);
    let delay = Duration::from_millis(10);
    nodes.iter().for_each(|node| node.slow(delay));
    let terms = Terms::default();
    let [one, other] = [client(&nodes), client(&nodes)];
    let first = replica(&one, 0, &terms);
    terms.until(1).await;
    let second = replica(&other, 1, &terms);
    sleep(10 * SECOND).await;
    let begun = Instant::now();
    tokio::spawn({
        let one = one.clone();
        async move { one.shutdown(Duration::ZERO).await }
    });
    terms.until(2).await;
    assert!(begun.elapsed() <= 3 * delay + Duration::from_millis(2), "{:?}", begun.elapsed());
    assert!(matches!(first.await.unwrap(), LockError::ShuttingDown { .. }));
    assert_eq!(terms.replicas(), [0, 1]);
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_campaign_outlives_an_hour_without_a_quorum() {
    let nodes = nodes(3);
    let terms = Terms::default();
    let redlock = client(&nodes);
    let led = replica(&redlock, 0, &terms);
    terms.until(1).await;
    nodes[..2].iter().for_each(MemoryNode::stop);
    sleep(HOUR).await;
    assert_eq!(terms.replicas(), [0]);
    assert!(!led.is_finished() && redlock.held().is_empty());
    nodes[..2].iter().for_each(MemoryNode::start);
    terms.until(2).await;
    led.abort();
}

/// On another thread, `release_all` may end the lock of a term before the body is polled.
#[tokio::test(start_paused = true)]
async fn release_all_between_the_lock_and_its_body_ends_no_campaign() {
    let redlock = Redlock::in_memory(3);
    let campaign = Campaign::new(redlock.lead("r")).unwrap();
    let mut never = async |_: LockHandle| -> ControlFlow<()> { unreachable!("it does not lead") };
    let guard = campaign.win().await.unwrap();
    redlock.release_all().await;
    let error = campaign.lead(guard, &mut never).await.unwrap_err();
    assert!(!ends(&error), "{error}");

    let guard = campaign.win().await.unwrap();
    redlock.shutdown(Duration::ZERO).await;
    let error = campaign.lead(guard, &mut never).await.unwrap_err();
    assert!(ends(&error), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_lost_drops_its_body_before_the_next_one() {
    struct Leads(Arc<Mutex<usize>>);
    impl Leads {
        fn new(leading: &Arc<Mutex<usize>>) -> Self {
            let mut now = leading.lock().unwrap();
            assert_eq!(std::mem::replace(&mut *now, 1), 0, "two lead at once");
            Self(Arc::clone(leading))
        }
    }
    impl Drop for Leads {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = 0;
        }
    }
    let nodes = nodes(3);
    let leading = Arc::default();
    let terms = Terms::default();
    let campaigns: Vec<_> = (0..2)
        .map(|number| {
            let (redlock, terms, leading) = (client(&nodes), terms.clone(), Arc::clone(&leading));
            tokio::spawn(async move {
                let led = redlock.lead("r").run::<Infallible, _, _>(|term| {
                    terms.add(number, &term);
                    let leads = Leads::new(&leading);
                    async move {
                        pending::<()>().await;
                        drop(leads);
                        Continue(())
                    }
                });
                led.await
            })
        })
        .collect();
    for lost in 1..4 {
        terms.until(lost).await;
        nodes[..2].iter().for_each(MemoryNode::hang);
        sleep(5 * SECOND).await;
        nodes[..2].iter().for_each(MemoryNode::resume);
    }
    terms.until(4).await;
    campaigns.iter().for_each(JoinHandle::abort);
}

/// The pause between attempts is for roles that are taken.
#[tokio::test(start_paused = true)]
async fn after_a_lost_term_a_campaign_does_not_pause_for_long() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).retry_delay(HOUR).build().unwrap();
    let terms = Terms::default();
    let led = replica(&redlock, 0, &terms);
    terms.until(1).await;
    redlock.release_all().await;
    let lost = Instant::now();
    terms.until(2).await;
    assert!(lost.elapsed() <= 2 * SECOND, "{:?} without a leader", lost.elapsed());
    led.abort();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_at_once_is_tried_again_later() {
    let node = MemoryNode::new();
    let redlock = Redlock::builder().nodes([&node]).max_waiters(1).retry_jitter(Duration::ZERO);
    let redlock = redlock.retry_delay(Duration::ZERO).build().unwrap();
    let guard = redlock.lock("r").await.unwrap();
    let waits = tokio::spawn(redlock.lock("r").wait(HOUR).into_future());
    sleep(SECOND).await;
    let led = tokio::spawn(async move { redlock.lead("r").run(async |_| Break(7)).await });
    // Without any pause, it would compute for ever, and no time would pass here.
    sleep(SECOND).await;
    assert!(!led.is_finished(), "too many wait, which passes");
    drop(guard);
    drop(waits.await.unwrap().unwrap());
    assert_eq!(timeout(HOUR, led).await.unwrap().unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_a_campaign_pauses_for_as_long_as_it_was_told() {
    let node = MemoryNode::new();
    let redlock = Redlock::builder().nodes([&node]).max_waiters(1).retry_delay(HOUR);
    let redlock = redlock.build().unwrap();
    let guard = redlock.lock("r").await.unwrap();
    let waits = tokio::spawn(redlock.lock("r").wait(HOUR).into_future());
    sleep(SECOND).await;
    let led = tokio::spawn(async move { redlock.lead("r").run(async |_| Break(7)).await });
    sleep(SECOND).await;
    drop(guard);
    drop(waits.await.unwrap().unwrap());
    sleep(HOUR / 2).await;
    assert!(!led.is_finished(), "it asked again sooner");
    assert_eq!(timeout(HOUR, led).await.unwrap().unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_campaign_between_two_attempts_ends_with_its_client() {
    let node = MemoryNode::new();
    let redlock = Redlock::builder().nodes([&node]).max_waiters(1).retry_delay(HOUR);
    let redlock = redlock.build().unwrap();
    let _guard = redlock.lock("r").await.unwrap();
    let _waits = tokio::spawn(redlock.lock("r").wait(HOUR).into_future());
    sleep(SECOND).await;
    let campaign = redlock.lead("r");
    let led = tokio::spawn(campaign.run(async |_| Break(7)));
    sleep(SECOND).await;
    redlock.shutdown(Duration::ZERO).await;
    let refused = timeout(SECOND, led).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(refused, LockError::ShuttingDown { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_at_once() {
    let redlock = Redlock::in_memory(1);
    let lead = |role: &str| redlock.lead(role);
    let never = async |_: LockHandle| -> ControlFlow<()> { unreachable!("it does not lead") };
    for (request, expected) in [
        (lead("r").auto_extend(false), "auto_extend(false)"),
        (lead("r").shared(), "remove shared"),
        (lead("r").permits(3), "or permits"),
        (lead("r").ttl(Duration::ZERO), "ttl is 0ns"),
        (lead(""), "empty"),
    ] {
        let refused = timeout(SECOND, request.run(never)).await.unwrap().unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    let inside = redlock.lock("r").run(async |_| redlock.lead("r").run(never).await);
    let refused = timeout(SECOND, inside).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
    // Another client's lock of the same name is a separate lock.
    let other = Redlock::in_memory(1);
    // Permits are other locks.
    let beside = redlock.lock("r").permits(2);
    let beside = beside.run(async |_| redlock.lead("r").run(async |_| Break(7)).await);
    assert_eq!(beside.await.unwrap().unwrap(), 7);
    let inside = redlock.lock("r").run(async |_| other.lead("r").run(async |_| Break(7)).await);
    assert_eq!(inside.await.unwrap().unwrap(), 7);

    redlock.shutdown(Duration::ZERO).await;
    let refused = lead("r").run(never).now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, LockError::ShuttingDown { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_dropped_leaves_nothing() {
    let nodes = nodes(3);
    let [one, other] = [client(&nodes), client(&nodes)];
    let terms = Terms::default();
    for waits in [false, true] {
        let held = if waits { Some(other.lock("scheduler").await.unwrap()) } else { None };
        let campaign = replica(&one, 0, &terms);
        sleep(10 * SECOND).await;
        campaign.abort();
        drop(held);
        sleep(10 * SECOND).await;
        let left: Vec<_> = nodes.iter().flat_map(MemoryNode::keys).collect();
        assert!(left.iter().all(|key| key.ends_with(":fence")), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_of_limited_length_ends_by_itself() {
    let redlock = Redlock::in_memory(1);
    let (mut terms, begun) = (0, Instant::now());
    let led = redlock.lead("r").max_hold(10 * SECOND).run(|term| {
        terms += 1;
        let is_last = terms == 3;
        async move {
            if is_last {
                return Break(());
            }
            term.lost().await;
            pending().await
        }
    });
    timeout(HOUR, led).await.unwrap().unwrap();
    assert!(begun.elapsed() >= 20 * SECOND);
}

/// One that is refused, and does not wait, asks again a day later.
#[tokio::test(start_paused = true)]
async fn a_campaign_waits_whatever_it_was_told_of_waiting() {
    let redlock = Redlock::in_memory(3);
    let held = redlock.lock("r").await.unwrap();
    let campaign = redlock.lead("r").wait(Duration::ZERO).retry_count(0).retry_delay(24 * HOUR);
    let led = tokio::spawn(campaign.run(async |_| Break(7)));
    sleep(HOUR).await;
    drop(held);
    assert_eq!(timeout(HOUR, led).await.expect("it waited").unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn no_other_client_leads_before_min_hold_is_over() {
    let (nodes, begun) = (nodes(3), Instant::now());
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    let first = redlock.lead("scheduler").min_hold(20 * SECOND);
    let first = tokio::spawn(first.run(async |_| {
        sleep(5 * SECOND).await;
        Break(())
    }));
    sleep(SECOND).await;
    let terms = Terms::default();
    let second = replica(&client(&nodes), 1, &terms);
    terms.until(1).await;
    assert!(begun.elapsed() >= 20 * SECOND, "the next term began after {:?}", begun.elapsed());
    first.await.unwrap().unwrap();
    second.abort();
}
