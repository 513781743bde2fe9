//! Timers for futures that users poll. Such a future may move from one runtime to another, and the
//! runtime on which it began to wait may have been shut down since. Tokio's own timers panic then.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::Id,
    time::{Instant, Sleep},
};

use crate::runtime::{here, in_runtime, note_shut_down};

/// The time is up, or no runtime is left on which it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Waits for `span`. Returns at once where no time passes: outside a runtime, and on a runtime that
/// was shut down.
pub(crate) async fn sleep(span: Duration) {
    let mut timer = Timer::new(span);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Waits for `future`, for `limit` at most.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut timer = Timer::new(limit);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => timer.poll(cx).map(|()| Err(Elapsed)),
    })
    .await
}

/// How much of its limit a process that stands still uses up in [`timeout_awake`].
const STEP: Duration = Duration::from_millis(100);

/// A step that lasts for longer is a stop. A process that is slow has its limit in real time.
const STOP: Duration = Duration::from_secs(1);

/// After so many stops each further one counts in full: a process whose tasks compute for seconds at a time looks
/// as if it stood still again and again.
const MAX_STOPS: usize = 3;

/// Waits for `future`, for `limit` at most of the time in which this process runs. After a stop, all timers of a
/// process are over before its tasks have run: what they are given time for has had none.
pub(crate) async fn timeout_awake<F: Future>(
    limit: Duration,
    future: F,
) -> Result<F::Output, Elapsed> {
    let (mut future, mut left, mut stops) = (pin!(future), limit, 0);
    loop {
        let begun = Instant::now();
        let ended = timeout(left.min(STEP), future.as_mut()).await;
        let took = begun.elapsed();
        stops += usize::from(took >= STOP);
        let is_forgiven = took >= STOP && stops <= MAX_STOPS;
        left = left.saturating_sub(if is_forgiven { STEP } else { took });
        if ended.is_ok() || left.is_zero() || !in_runtime() {
            return ended;
        }
    }
}

/// A timer of the runtime on which it is polled. Tokio's timers stay with the runtime on which they began, which may
/// have ended, or may not be driven while the timer is polled on another one.
struct Timer {
    /// `None` when that time is too far away for an `Instant`.
    until: Option<Instant>,
    sleep: Option<(Id, Pin<Box<Sleep>>)>,
}

impl Timer {
    fn new(span: Duration) -> Self {
        Self { until: Instant::now().checked_add(span), sleep: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(here) = here() else { return Poll::Ready(()) };
        let (_, sleep) =
            match &mut self.sleep {
                Some(sleep) if sleep.0 == here => sleep,
                sleep => sleep.insert((
                    here,
                    Box::pin(self.until.map_or_else(
                        || tokio::time::sleep(Duration::MAX),
                        tokio::time::sleep_until,
                    )),
                )),
            };
        // Tokio has no other way to say that the runtime was shut down.
        catch_unwind(AssertUnwindSafe(|| sleep.as_mut().poll(cx))).unwrap_or_else(|_| {
            note_shut_down();
            Poll::Ready(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;
    use tokio::{
        runtime::{Builder, Runtime},
        time::timeout as tokio_timeout,
    };

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_counts_like_tokio() {
        let begun = Instant::now();
        sleep(LONG).await;
        assert_eq!(begun.elapsed(), LONG);
        assert_eq!(timeout(LONG, pending::<()>()).await, Err(Elapsed));
        assert_eq!(begun.elapsed(), 2 * LONG);
        assert_eq!(timeout(Duration::ZERO, ready(7)).await, Ok(7));
        assert_eq!(timeout(Duration::ZERO, pending::<()>()).await, Err(Elapsed));
        assert!(timeout(Duration::MAX, pending::<()>()).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_of_the_process_uses_up_little_of_a_limit() {
        let begun = Instant::now();
        assert_eq!(timeout_awake(LONG, pending::<()>()).await, Err(Elapsed));
        assert_eq!(begun.elapsed(), LONG);
        assert_eq!(timeout_awake(Duration::ZERO, ready(7)).await, Ok(7));
        assert_eq!(timeout_awake(Duration::ZERO, pending::<()>()).await, Err(Elapsed));
        let (limit, begun) = (4 * STEP, Instant::now());
        let waits = tokio::spawn(timeout_awake(limit, pending::<()>()));
        tokio::task::yield_now().await;
        tokio::time::advance(LONG).await;
        assert_eq!(waits.await.unwrap(), Err(Elapsed));
        assert_eq!(begun.elapsed(), LONG + 3 * STEP);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_slow_has_no_longer_limit() {
        // Tasks that compute for longer than a stop are forgiven a few times.
        for (busy, most) in [(STOP / 2, STOP), (2 * STOP, 8 * STOP)] {
            let (limit, begun) = (100 * STEP, Instant::now());
            let waits = tokio::spawn(timeout_awake(limit, pending::<()>()));
            while !waits.is_finished() {
                tokio::task::yield_now().await;
                tokio::time::advance(busy).await;
            }
            assert!(begun.elapsed() <= limit + most, "{:?}", begun.elapsed());
        }
    }

    #[test]
    fn a_timer_goes_on_where_it_is_polled_when_its_runtime_has_ended() {
        let span = Duration::from_millis(50);
        let begun = Instant::now();
        let mut waiting = Box::pin(sleep(span));
        runtime().block_on(async { assert!((&mut waiting).now_or_never().is_none()) });
        runtime().block_on(waiting);
        assert!((span..LONG).contains(&begun.elapsed()));
    }

    #[test]
    fn a_timer_goes_on_where_it_is_polled_while_its_runtime_stands_still() {
        let first = runtime();
        let mut waiting = Box::pin(sleep(Duration::from_millis(50)));
        first.block_on(async { assert!((&mut waiting).now_or_never().is_none()) });
        let ended = runtime().block_on(async { tokio_timeout(LONG / 60, waiting).await });
        assert_eq!(ended, Ok(()));
        drop(first);
    }

    #[test]
    fn a_timer_ends_at_once_where_no_time_passes() {
        assert_eq!(timeout(LONG, pending::<()>()).now_or_never(), Some(Err(Elapsed)));
        assert_eq!(timeout_awake(LONG, pending::<()>()).now_or_never(), Some(Err(Elapsed)));
        let runtime = runtime();
        let handle = runtime.handle().clone();
        drop(runtime);
        assert_eq!(handle.block_on(timeout(LONG, pending::<()>())), Err(Elapsed));
        assert_eq!(handle.block_on(timeout_awake(LONG, pending::<()>())), Err(Elapsed));
        assert_eq!(handle.block_on(async { crate::runtime::unusable() }), {
            Some(crate::runtime::Unusable::ShutDown)
        });
    }
}
