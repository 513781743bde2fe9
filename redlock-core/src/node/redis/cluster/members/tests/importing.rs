//! Slots that a member is about to take over: `ASK`.

use super::*;

/// The other member runs one command of the slot and no more.
#[tokio::test(start_paused = true)]
async fn a_member_that_takes_a_slot_over_does_not_own_it_before_a_look_says_so() {
    let (mut members, [mut first, mut second]) = two();
    let _grant = redirected(&mut members, &mut first, &ask_at(2)).await;
    assert_eq!(heard(&mut second).await, ["SET"]);
    members.apply(look(1));
    assert_eq!(members.owners[usize::from(slot_of(KEY))], 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_takes_its_first_slot_over_stays_while_it_has_commands_to_answer() {
    let (mut members, [mut first, mut second]) = two();
    let grant = redirected(&mut members, &mut first, &ask_at(2)).await;
    assert_eq!(heard(&mut second).await, ["SET"]);
    members.apply(look_at_one(1));
    // To `ASKING`, too.
    second.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
    assert_eq!(answered(&mut members, &[grant]).await, [Ok(Reply::Done)]);
    members.apply(look_at_one(1));
    assert_eq!(members.members.len(), 1, "it has nothing left to answer");
}

/// Without a run id, each connection may be to another process: also one that was opened for a command alone.
/// Rule 16: keys come to a member before their slot does, and go when it restarts.
#[tokio::test(start_paused = true)]
async fn a_member_that_restarted_gives_no_lock_in_a_slot_that_it_is_taking_over() {
    for restarts in [false, true] {
        let (mut members, [mut first, mut second]) = two();
        if restarts {
            drop(second);
            drive(&mut members).await;
            let (opened, end) = open(2);
            assert!(members.apply(Found { opened: vec![opened], ..look(1) }) > 0);
            second = end;
        }
        let peers = tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            assert!(first.read(&mut buffer).await.unwrap() > 0);
            first.write_all(ask_at(2).as_bytes()).await.unwrap();
            if !restarts {
                assert!(second.read(&mut buffer).await.unwrap() > 0);
                second.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
            }
            (first, second)
        });
        let answer = lock(&mut members).await;
        match restarts {
            false => assert_eq!(answer, Ok(Reply::Done)),
            true => assert_eq!(answer.unwrap_err().kind, NodeErrorKind::SitsOut),
        }
        drop(peers.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_connected_for_one_command_has_not_been_looked_at() {
    let (mut members, [mut first, _second]) = two();
    members.apply(look_at_one(1));
    let _grant = redirected(&mut members, &mut first, &ask_at(2)).await;
    let (opened, mut second) = open(2);
    members.apply(Found { opened: vec![opened], ..look_at_one(1) });
    assert_eq!(heard(&mut second).await, ["SET"]);
    assert_eq!(members.apply(look(1)), 1, "it may have restarted");
}

/// The findings of a look that could not reach the member with this port.
fn away(port: u16) -> Found {
    Found { opened: vec![(place(port), Err("refused".into()))], ..look(1) }
}

/// A lock that is renewed needs the member that has the slot, and not the one that is away.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_does_not_block_the_slot_that_it_is_taking_over() {
    let (mut members, [mut first, _second]) = two();
    let waits = redirected(&mut members, &mut first, &ask_at(3)).await;
    assert!(members.wants_look && waits.poll().is_pending());
    assert_eq!(members.wanted(), [place(3)].into());
    members.apply(away(3));
    let [Err(error)] = &answered(&mut members, &[waits]).await[..] else { panic!("it is away") };
    assert_eq!((error.kind, &*error.reason), (NodeErrorKind::Down, "h:3 of the cluster: refused"));
    assert!(members.wanted().is_empty(), "nothing has asked for it since");

    // The next ones are told at once, and have the next look try it.
    for _ in 0..2 {
        let told = redirected(&mut members, &mut first, &ask_at(3)).await;
        assert!(!members.wants_look);
        let [Err(error)] = &answered(&mut members, &[told]).await[..] else { panic!("it is away") };
        assert_eq!(&*error.reason, "h:3 of the cluster: refused");
        assert_eq!(members.wanted(), [place(3)].into());
        assert_eq!(members.useless(), [place(3)].into());
        // A look that spares it, and one that tries it.
        members.apply(look(1));
        assert_eq!(members.wanted(), [place(3)].into());
        members.apply(away(3));
    }
    let _asks = redirected(&mut members, &mut first, &ask_at(3)).await;
    let (opened, mut third) = open(3);
    members.apply(Found { opened: vec![opened], ..look(1) });
    let grant = redirected(&mut members, &mut first, &ask_at(3)).await;
    assert_eq!(heard(&mut third).await, ["SET"]);
    third.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
    assert_eq!(answered(&mut members, &[grant]).await, [Ok(Reply::Done)]);
    members.apply(look(1));
    assert_eq!(members.members.len(), 2, "it has nothing left to answer");
}

/// It may be back at once.
#[tokio::test(start_paused = true)]
async fn a_member_whose_connection_has_just_ended_is_waited_for() {
    let (mut members, [mut first, second]) = two();
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(second);
    drive(&mut members).await;
    let grant = redirected(&mut members, &mut first, &ask_at(2)).await;
    assert!(members.wants_look && grant.poll().is_pending());
    // This look had begun while the member was connected.
    members.apply(look(1));
    assert!(members.wants_look && grant.poll().is_pending());
    let (opened, _second) = open(2);
    members.apply(Found { opened: vec![opened], ..look(1) });
    let [Err(error)] = &answered(&mut members, &[grant]).await[..] else { panic!("a new process") };
    assert_eq!(error.kind, NodeErrorKind::SitsOut, "it is reached: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_redirected_during_a_look_waits_for_the_next_one() {
    let (mut members, [mut first, _second]) = two();
    // The look has begun.
    let grant = redirected(&mut members, &mut first, &ask_at(3)).await;
    members.apply(look(1));
    assert!(members.wants_look && grant.poll().is_pending());
    let (opened, mut third) = open(3);
    members.apply(Found { opened: vec![opened], ..look(1) });
    assert!(!members.wants_look);
    assert_eq!(heard(&mut third).await, ["SET"]);
}
