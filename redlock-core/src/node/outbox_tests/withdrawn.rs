//! Deletes of claims whose grant, or adoption, still waits.

use super::*;

/// It would run behind the delete, and leave a key that no client holds.
#[test]
fn a_delete_withdraws_an_adoption_that_was_asked_again() {
    // A claim does not know what was sent to the nodes that come after the first 64.
    for (node, is_sent, is_known) in
        [(0, false, true), (0, true, true), (64, false, false), (64, true, false)]
    {
        let mut outbox = up();
        let round = Round::new(&names(130), |_| false);
        let put =
            |outbox: &mut Outbox, job| outbox.put(&name(), job, ReplyTo::new(&round, node), at(0));
        let claim = Arc::new(Claim { adopts: true, ..Claim::new(&"k".into(), "ours.".into()) });
        let from = crate::token::Token::parse(&"0a".repeat(20)).unwrap();
        let adopt = Action::Adopt { ttl: Duration::from_secs(5), from };
        put(&mut outbox, Job::new(&claim, adopt));
        if is_sent {
            assert_eq!(actions(&take(&mut outbox, 0)), [adopt]);
        }
        let replaced = put(&mut outbox, Job::new(&claim, adopt));
        assert_eq!(replaced.len(), usize::from(!is_sent), "one of the two is enough");
        let early = put(&mut outbox, delete(&claim));
        let gone = early.iter().any(|(_, it)| *it == Ok(Reply::Missing));
        assert_eq!(gone, !is_sent && is_known, "nothing of it got here");
        let release = Action::Release { wakes: KeySet::NONE };
        assert_eq!(actions(&take(&mut outbox, 0)), if gone { vec![] } else { vec![release] });
    }
}

/// A client may have more nodes than a claim can note.
#[test]
fn a_delete_withdraws_its_own_set_on_each_node_that_was_not_sent_it() {
    let ours = claim("k");
    let round = Round::new(&names(130), |_| false);
    let reply_to = |node| ReplyTo::new(&round, node);
    let put = |outbox: &mut Outbox, node, job| outbox.put(&name(), job, reply_to(node), at(0));
    let mut outboxes: Vec<Outbox> = (0..130).map(|_| up()).collect();
    for (node, outbox) in outboxes.iter_mut().enumerate() {
        assert!(put(outbox, node, Job::new(&ours, GRANT)).is_empty());
    }
    for sent in [0, 63, 64, 129] {
        assert_eq!(actions(&take(&mut outboxes[sent], 0)), [GRANT]);
    }
    for (node, outbox) in outboxes.iter_mut().enumerate() {
        let was_sent = [0, 63, 64, 129].contains(&node);
        let renewal = put(outbox, node, Job::new(&ours, EXTEND));
        assert_eq!(renewal.is_empty(), was_sent, "{node}");
        let gone = put(outbox, node, delete(&ours));
        assert_eq!(gone.last().is_none_or(|(_, it)| it.is_err()), was_sent, "{node}: {gone:?}");
    }
}
