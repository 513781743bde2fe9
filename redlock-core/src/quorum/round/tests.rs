//! Rounds of votes.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::*;
use crate::{clock::TokioClock, node::ReplyTo};

fn no_nodes() -> Nodes {
    let second = Duration::from_secs(1);
    Nodes::new(Vec::new(), Arc::new(TokioClock), second, second)
}

#[tokio::test(start_paused = true)]
async fn a_round_settles_once_and_counts_late_votes() {
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<Vec<String>>>);

    impl OnSettled for Calls {
        fn settled(&self, _: &Arc<Round>, tally: Tally) {
            self.0.lock().push(format!("settled with {}", tally.yes()));
        }

        fn late(&self, round: &Arc<Round>) {
            self.0.lock().push(format!("late, {} in all", round.yes()));
        }
    }

    let calls = Calls::default();
    let round = Round::with_on_settled(&names(3), Tally::reached, None, calls.clone());
    for node in 0..3 {
        ReplyTo::new(&round, node).deliver(Ok(Reply::Done));
    }
    assert_eq!(round.settled(&no_nodes()).await.yes(), 3);
    assert_eq!(*calls.0.lock(), ["settled with 2", "late, 3 in all"]);
}

#[tokio::test(start_paused = true)]
async fn the_asker_hears_of_the_outcome_after_its_consequences_have_run() {
    struct Unheard;

    impl OnSettled for Unheard {
        fn settled(&self, round: &Arc<Round>, _: Tally) {
            assert!(round.settled(&no_nodes()).now_or_never().is_none());
        }

        fn late(&self, _: &Arc<Round>) {}
    }

    let round = Round::with_on_settled(&names(1), Tally::reached, None, Unheard);
    ReplyTo::new(&round, 0).deliver(Ok(Reply::Done));
    assert!(round.settled(&no_nodes()).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_healed_has_another_vote() {
    let round = Round::new(&names(3), Tally::reached);
    for (node, reply) in [(0, Reply::Done), (1, Reply::Missing), (2, Reply::Foreign)] {
        ReplyTo::new(&round, node).deliver(Ok(reply));
    }
    assert_eq!(round.take_missing(), [1]);
    assert_eq!(round.take_missing(), [0; 0], "once");
    assert_eq!(round.effects()[1..], [Effect::Possible, Effect::None]);
    ReplyTo::new(&round, 1).deliver(Ok(Reply::Done));
    assert_eq!(round.yes(), 2);
    assert!(round.has_yes(1) && round.effects()[1] == Effect::Certain);
}

/// What was asked first may run when what was asked next has been answered.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_asked_again_may_have_run_what_it_was_asked_first() {
    let round = Round::new(&names(5), Tally::reached);
    let error = |may_have_run| {
        let error = NodeError::new(&"n".into(), NodeErrorKind::Timeout, "late");
        NodeError { may_have_run, ..error }
    };
    ReplyTo::new(&round, 0).deliver(Ok(Reply::Done));
    ReplyTo::new(&round, 1).deliver(Err(error(false)));
    ReplyTo::new(&round, 2).deliver(Ok(Reply::Missing));
    let late = ReplyTo::new(&round, 3);
    round.asked_again();
    late.deliver(Err(error(false)));
    ReplyTo::new(&round, 4).deliver(Ok(Reply::Done));
    let (possible, certain) = (Effect::Possible, Effect::Certain);
    assert_eq!(round.effects()[..], [certain, possible, possible, possible, certain]);
    assert_eq!(round.yes(), 1, "the other round has the votes");
}

#[tokio::test(start_paused = true)]
async fn a_node_has_one_vote() {
    let round = Round::new(&names(3), Tally::reached);
    for _ in 0..3 {
        ReplyTo::new(&round, 0).deliver(Ok(Reply::Done));
    }
    assert_eq!(round.yes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_is_a_failure_that_may_have_run() {
    let round = Round::new(&names(1), Tally::impossible);
    drop(ReplyTo::new(&round, 0));
    assert!(round.settled(&no_nodes()).await.impossible_by_failures());
    assert_eq!(round.effects()[0], Effect::Possible);
    assert_eq!(round.failures().iter().map(|it| &*it.node).collect::<Vec<_>>(), ["a:0"]);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_limit() {
    let round = Round::new(&names(3), Tally::is_decided);
    let begun = Instant::now();
    assert!(round.settled(&no_nodes()).await.impossible_by_failures());
    assert_eq!(begun.elapsed(), Duration::from_secs(4 + 1));
}

/// A question to a node that is slow would wait there for no caller.
#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_round_until_it_has_settled() {
    struct Awaited;

    impl OnSettled for Awaited {
        fn settled(&self, _: &Arc<Round>, _: Tally) {}

        fn late(&self, _: &Arc<Round>) {}

        fn is_awaited(&self) -> bool {
            true
        }
    }

    let round = Round::with_on_settled(&names(3), Tally::reached, None, Awaited);
    for (node, waits) in [(0, true), (1, false), (2, false)] {
        ReplyTo::new(&round, node).deliver(Ok(Reply::Done));
        assert_eq!(ReplySink::is_awaited(&*round), waits, "{node}");
    }
}
