//! How long the commands of a crowd wait for more commands: one write for all of them.

use tokio::{runtime::Handle, task::yield_now};

/// How often other tasks get to run at most, on a runtime with several threads.
const MAX_YIELDS: usize = 4;

/// How often other tasks run at most before the commands of a crowd are sent. On one thread, each of them
/// has run after the first time.
pub(super) fn max_yields() -> usize {
    match Handle::try_current().map(|runtime| runtime.metrics().num_workers()) {
        Ok(2..) => MAX_YIELDS,
        Ok(_) | Err(_) => 1,
    }
}

/// Lets other tasks run once, and again while they send more commands, up to `most` times. `gathered` is
/// how many commands wait; `None` when they should wait until the others have run once.
pub(super) async fn gather(most: usize, gathered: impl Fn() -> Option<usize>) {
    let mut before = gathered();
    for _ in 0..most {
        yield_now().await;
        let now = gathered();
        if now <= before {
            break;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often `gathered` was asked, which begins with these answers and then stays `None`.
    async fn asked(most: usize, answers: &[Option<usize>]) -> usize {
        let asked = Cell::new(0);
        gather(most, || answers.get(asked.replace(asked.get() + 1)).copied().flatten()).await;
        asked.get()
    }

    #[tokio::test]
    async fn a_crowd_is_waited_for_while_it_grows() {
        let grows: Vec<_> = (0..9).map(Some).collect();
        assert_eq!(asked(1, &grows).await, 2);
        assert_eq!(asked(4, &grows).await, 5);
        assert_eq!(asked(4, &[Some(3), Some(3), Some(4)]).await, 2, "all of them had asked");
        assert_eq!(asked(4, &[Some(3), Some(2), Some(4)]).await, 2, "a caller sent some itself");
        assert_eq!(asked(4, &[Some(3), Some(4), Some(4), Some(5)]).await, 3);
    }

    #[tokio::test]
    async fn a_full_batch_and_a_renewal_wait_until_the_others_have_run_once() {
        assert_eq!(asked(4, &[Some(127), None, Some(3)]).await, 2);
        assert_eq!(asked(4, &[None, Some(3), Some(4), None]).await, 4, "they left meanwhile");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_threads_beside_this_one_are_waited_for() {
        assert_eq!(max_yields(), MAX_YIELDS);
        let alone = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(
            std::thread::spawn(move || alone.block_on(async { max_yields() })).join().unwrap(),
            1
        );
    }
}
