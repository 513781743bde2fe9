//! Permits that are free, as `find_permits.lua` finds them on a server.

use std::time::Duration;

use super::Data;
use crate::node::{
    Claim, Reply, Told,
    memory::{queues::RECENT, watched::Pushes},
    queue_keys,
};

fn found(free: Vec<u32>) -> Reply {
    Reply::Permits { free, told: Told::default() }
}

impl Data {
    /// `find_permits.lua`.
    pub(super) fn find_permits(
        &mut self,
        claim: &Claim,
        (count, from): (u32, u32),
        (most, asker): (u32, u64),
        keeps: Duration,
        told: &mut Pushes,
    ) -> Reply {
        let (queue_name, now) = (queue_keys::queue_name(&claim.key).to_owned(), self.clock.now());
        let (had_turn, promised) = self.queues.promised(&queue_name, &claim.value, now);
        let numbers = (0..count).map(|number| (from + number) % count);
        let is_free = |number: &u32| self.remaining(&format!("{queue_name}:{number}")).is_none();
        let all: Vec<u32> = numbers.filter(is_free).collect();
        let is_spoken_for = |number: &u32| self.queues.is_spoken_for(&queue_name, *number, now);
        let mut free: Vec<u32> = all.iter().copied().filter(|it| !is_spoken_for(it)).collect();
        if had_turn && free.is_empty() {
            // The one that was released for it may be among them.
            free = all.into_iter().take(1).collect();
        }
        let is_wanted = promised > 0 || self.queues.has_waiters(&queue_name, now);
        if is_wanted && !had_turn && free.len() <= promised {
            return found(Vec::new());
        }
        let others_ask = self.queues.others_ask(&queue_name, asker, now);
        let others_wait = self.queues.others_wait(&queue_name, &claim.value, now);
        let others = others_ask.max(others_wait).max(promised);
        let share = free.len().saturating_sub(promised) / (others + 1);
        let given = if others == 0 { most as usize } else { share.clamp(1, most as usize) };
        let is_another_free = free.len() > promised + given && (given == 1 || others > 0);
        let told = is_another_free
            .then(|| self.queues.wake(&claim.key, now, &mut self.watched, told))
            .flatten();
        free.truncate(given);
        if !free.is_empty() && !keeps.is_zero() {
            self.queues.tells_of(&queue_name, &free, now + keeps.as_secs_f64().min(RECENT));
        }
        Reply::Permits { free, told: told.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::node::{Action, Command, KeySet, Listens};

    const LIFE: Duration = Duration::from_secs(5);
    const FIND: Action =
        Action::FindPermits { count: 2, from: 0, most: 1, asker: 1, keeps: Duration::ZERO };
    const GRANT: Action = Action::Grant { ttl: Duration::from_secs(60) };
    const JOIN: Action =
        Action::Join { place: 0, life: LIFE, listens: Listens::Turn, reads: false };

    /// Has a client do this, for the permit with this number. The clients that are told have their names as
    /// connections.
    fn act(data: &mut Data, name: u64, number: u32, action: Action) -> (Reply, Vec<u64>) {
        let key = queue_keys::permit("redlock:a", number);
        let claim = Arc::new(Claim::new(&key.into(), name.to_string()));
        let (mut replies, pushes) = data.run(&[Command { claim, action }], name);
        let mut told: Vec<_> = pushes.into_iter().map(|push| push.to).collect();
        // With the turn of a waiter, its other keys are written as well.
        told.dedup();
        (replies.remove(0), told)
    }

    fn free(number: u32) -> Reply {
        found(vec![number])
    }

    /// These permits, and the turn for another one to the waiter with this name.
    fn given(numbers: &[u32], waiter: u64) -> Reply {
        let told = Told::named(&[(0, &format!("turn:{waiter}"))]);
        Reply::Permits { free: numbers.to_vec(), told }
    }

    fn none() -> Reply {
        found(Vec::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_a_waiter_does_not_use_goes_to_the_next_waiter() {
        let mut data = Data::new();
        let [holder, first, second, other] = [1, 2, 3, 4];
        for number in 0..2 {
            assert_eq!(act(&mut data, holder, number, GRANT).0, Reply::Done);
        }
        // Both wait before the permit that stays taken: only the turn tells them of the other one.
        for waiter in [first, second] {
            assert!(matches!(act(&mut data, waiter, 1, JOIN).0, Reply::Queued { .. }));
        }
        let release = Action::Release { wakes: KeySet::FIRST };
        let (reply, told) = act(&mut data, holder, 0, release);
        assert!(matches!(reply, Reply::Woke { deleted: true, .. }), "{reply:?}");
        assert_eq!(told, [first, second], "its turn, and that it is next");
        let (_, told) = act(&mut data, first, 1, Action::Leave { again: false });
        assert_eq!(told, [second]);
        assert_eq!(act(&mut data, other, 0, FIND).0, none(), "it is kept");
        assert_eq!(act(&mut data, second, 1, FIND).0, free(0));
        assert_eq!(act(&mut data, other, 0, FIND).0, free(0), "it has asked");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_told_of_its_share_of_the_permits() {
        let mut data = Data::new();
        let [holder, one, other] = [1, 2, 3];
        let free = |numbers: &[u32]| found(numbers.to_vec());
        let find =
            |most| Action::FindPermits { count: 9, from: 7, most, asker: 1, keeps: Duration::ZERO };
        assert_eq!(act(&mut data, holder, 8, GRANT).0, Reply::Done);
        assert_eq!(act(&mut data, one, 0, find(3)).0, free(&[7, 0, 1]));
        assert_eq!(act(&mut data, one, 0, find(20)).0, free(&[7, 0, 1, 2, 3, 4, 5, 6]));
        let other_finds =
            Action::FindPermits { count: 9, from: 7, most: 1, asker: 2, keeps: Duration::ZERO };
        assert_eq!(act(&mut data, other, 0, other_finds).0, free(&[7]));
        let of_eight = [(3, &[7, 0, 1][..]), (20, &[7, 0, 1, 2])];
        for (most, share) in of_eight {
            assert_eq!(act(&mut data, one, 0, find(most)).0, free(share), "two clients ask");
        }
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert!(matches!(act(&mut data, one, 0, JOIN).0, Reply::Queued { .. }));
        assert_eq!(act(&mut data, one, 0, find(3)).0, free(&[7, 0, 1]), "it waits itself");
        assert_eq!(act(&mut data, other, 0, find(3)).0, given(&[7, 0, 1], one), "the other waits");
        assert!(matches!(act(&mut data, one, 0, JOIN).0, Reply::Queued { .. }));
        let release = Action::Release { wakes: KeySet::FIRST };
        assert!(matches!(act(&mut data, holder, 8, release).0, Reply::Woke { .. }));
        assert_eq!(act(&mut data, other, 0, find(20)).0, free(&[7, 8, 0, 1]), "it has its turn");
        let all = free(&[7, 8, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(act(&mut data, one, 0, find(20)).0, all, "it has its turn itself");
    }

    /// Until it has set the key, others would be told of it, and one that is near would have it first.
    #[tokio::test(start_paused = true)]
    async fn a_permit_that_a_client_was_told_of_is_kept_for_it() {
        let mut data = Data::new();
        let keeps = Duration::from_millis(5);
        let find = |most| Action::FindPermits { count: 3, from: 0, most, asker: 1, keeps };
        assert_eq!(act(&mut data, 1, 0, find(2)).0, found(vec![0, 1]));
        assert_eq!(act(&mut data, 2, 0, find(2)).0, found(vec![2]));
        assert_eq!(act(&mut data, 3, 0, find(2)).0, none());
        assert_eq!(act(&mut data, 1, 0, GRANT).0, Reply::Done);
        tokio::time::advance(keeps).await;
        assert_eq!(act(&mut data, 3, 0, find(2)).0, found(vec![1, 2]), "they were not set");
        // A waiter has its turn for one that was released before the node could expect it.
        assert_eq!(act(&mut data, 3, 1, GRANT).0, Reply::Done);
        assert!(matches!(act(&mut data, 2, 0, JOIN).0, Reply::Queued { .. }));
        let release = Action::Release { wakes: KeySet::FIRST };
        assert!(matches!(act(&mut data, 3, 1, release).0, Reply::Woke { .. }));
        assert_eq!(act(&mut data, 4, 0, find(2)).0, none());
        assert_eq!(act(&mut data, 2, 0, find(2)).0, found(vec![1]));
        data.clear();
        assert_eq!(act(&mut data, 2, 0, find(3)).0, found(vec![0, 1, 2]));
        tokio::time::advance(Duration::from_secs(2)).await;
        data.sweep(&mut Pushes::by(None));
        assert_eq!(data.queues.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clients_that_have_asked_are_kept_for_a_moment() {
        let mut data = Data::new();
        let find = |asker| Action::FindPermits {
            count: 2,
            from: 0,
            most: 2,
            asker,
            keeps: Duration::ZERO,
        };
        let both = found(vec![0, 1]);
        assert_eq!(act(&mut data, 1, 0, find(1)).0, both);
        data.clear();
        assert_eq!(act(&mut data, 2, 0, find(2)).0, both, "the node has forgotten the other");
        data.sweep(&mut Pushes::by(None));
        assert_eq!(act(&mut data, 1, 0, find(1)).0, free(0));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(act(&mut data, 1, 0, find(1)).0, free(0));
        tokio::time::advance(Duration::from_millis(501)).await;
        assert_eq!(act(&mut data, 1, 0, find(1)).0, both, "that was long ago");
        tokio::time::advance(Duration::from_millis(1001)).await;
        data.sweep(&mut Pushes::by(None));
        assert_eq!(data.queues.known_askers(), 0);
    }

    /// Each with a name of its own, as the number of a customer.
    #[tokio::test(start_paused = true)]
    async fn what_is_kept_of_locks_that_are_over_is_bounded() {
        let mut data = Data::new();
        for number in 0..2500 {
            let key: Arc<str> = queue_keys::permit(&format!("redlock:{number}"), 0).into();
            let claim = Arc::new(Claim::new(&key, "waiter".to_owned()));
            let find =
                Action::FindPermits { count: 2, from: 0, most: 2, asker: 1, keeps: Duration::ZERO };
            data.run(&[Command { claim, action: find }], 1);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(data.queues.known_askers() <= 1024, "{}", data.queues.known_askers());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_was_released_when_no_client_waited_goes_to_the_next_waiter() {
        let mut data = Data::new();
        let [holder, waiter, other, third] = [1, 2, 3, 4];
        for number in 0..2 {
            assert_eq!(act(&mut data, holder, number, GRANT).0, Reply::Done);
            let release = Action::Release { wakes: KeySet::FIRST };
            assert_eq!(act(&mut data, holder, number, release).0, Reply::Done);
        }
        assert!(matches!(act(&mut data, waiter, 0, JOIN).0, Reply::Queued { .. }));
        // The node gives one permit to the client that asks, and knows of another.
        let (reply, told) = act(&mut data, other, 0, FIND);
        assert_eq!((reply, told), (given(&[0], waiter), vec![waiter]));
        assert_eq!(act(&mut data, other, 0, GRANT).0, Reply::Done);
        assert_eq!(act(&mut data, third, 0, FIND).0, none(), "it is kept");
        assert_eq!(act(&mut data, waiter, 0, FIND).0, free(1));
    }
}
