//! Slots that move: what releases and listeners make of it.

use super::*;
use crate::node::recorder::{Note, Recorder};

/// The member that runs the second step of a release has deleted the key in the first one.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_redirected_in_its_second_step_has_deleted_the_key() {
    let (mut members, _ends) = two();
    let abilities = Abilities { scripts: true, delete: Some(Delete::Delex) };
    let (ours, mut theirs) = duplex(64 * 1024);
    members.members[0].exchange =
        Some(Exchange::new(Setup { is_member: true, abilities, ..setup(ours) }));
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let release = ask(&mut members, &claim, Action::Release { wakes: KeySet::FIRST });
    let peer = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        assert!(theirs.read(&mut buffer).await.unwrap() > 0);
        // Deleted, and there is a queue.
        theirs.write_all(b":1\r\n:1\r\n").await.unwrap();
        assert!(theirs.read(&mut buffer).await.unwrap() > 0);
        theirs.write_all(ask_at(2).as_bytes()).await.unwrap();
        theirs
    });
    let answers = answered(&mut members, &[release]).await;
    assert!(matches!(answers[..], [Ok(Reply::Unwoken { deleted: true, .. })]), "{answers:?}");
    drop(peer.await.unwrap());
}

/// The member that has a slot now does not know which keys the one before was to tell of.
#[tokio::test(start_paused = true)]
async fn listeners_are_told_when_a_slot_has_another_member() {
    let slot = slot_of(KEY);
    let news = |members: &mut Members| {
        let news = members.take_news()?;
        assert!(news.pushed.is_empty());
        Some([slot, SLOTS - 1, 0].map(|slot| news.unpushed.contains(&slot)))
    };
    let (mut members, [mut first, mut second]) = two();
    assert_eq!(news(&mut members), None);
    members.apply(look(1));
    assert_eq!(news(&mut members), None, "nothing has changed");
    // A member says so.
    let grant = redirected(&mut members, &mut first, &moved_to(2)).await;
    assert_eq!(news(&mut members), Some([true, false, false]));
    assert_eq!(heard(&mut second).await, ["SET"]);
    second.write_all(b"+OK\r\n").await.unwrap();
    answered(&mut members, &[grant]).await;
    // A look finds it.
    members.apply(look(2));
    assert_eq!(news(&mut members), Some([false, true, true]), "the others have moved, too");
    // The connection to a former master is closed.
    members.apply(look_at_one(2));
    assert_eq!(news(&mut members), Some([false, true, false]));
    // A connection ends.
    drop(second);
    drive(&mut members).await;
    assert_eq!(news(&mut members), Some([true; 3]));

    // A master without a connection is replaced. The other one keeps its slot, under another number.
    let (mut members, _ends) = two();
    members.members[0].exchange = None;
    members.apply(look_at_one(2));
    assert_eq!(members.members.len(), 1);
    assert_eq!(news(&mut members), Some([true, false, true]));
    // A member has none of them.
    let (mut members, [first, second]) = two();
    drop(second);
    drive(&mut members).await;
    assert_eq!(news(&mut members), Some([false, true, false]));
    drop(first);
}

/// The listeners of all other slots would ask their nodes, for nothing.
#[tokio::test(start_paused = true)]
async fn only_the_listeners_of_a_slot_are_told_that_it_has_another_member() {
    const OTHER: &str = "redlock:b";
    assert_ne!(slot_of(OTHER), slot_of(KEY));
    let (mut members, [mut first, _second]) = two();
    let recorder = Arc::<Recorder>::default();
    for key in [KEY, OTHER] {
        members.watchers.add(&key.into(), 7, Arc::<Recorder>::clone(&recorder));
    }
    let _grant = redirected(&mut members, &mut first, &moved_to(2)).await;
    members.take_news().unwrap().tell();
    assert_eq!(recorder.take(), [(7, Note::Missed(KEY.to_owned()))]);
}
