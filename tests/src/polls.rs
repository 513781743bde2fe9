//! Dropping a future at each of its awaits.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use crate::wait::within;

/// More polls than any future here takes.
const MAX: usize = 10_000;

/// Polls the future this often at most; `None` when it was dropped before it ended.
pub async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Drops what `make` makes after no poll, after one, after two, and so on until it ends by itself.
pub async fn drop_after_every_poll<F: Future>(mut make: impl AsyncFnMut() -> F) -> F::Output {
    for times in 0..MAX {
        let future = make().await;
        if let Some(output) = within("a future", poll_times(times, future)).await {
            return output;
        }
    }
    panic!("the future did not end within {MAX} polls");
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::ready};

    use super::*;

    async fn steps(reached: &Cell<usize>) -> &'static str {
        for step in 1..3 {
            reached.set(step);
            tokio::task::yield_now().await;
        }
        "done"
    }

    #[tokio::test]
    async fn a_future_is_dropped_once_at_each_of_its_awaits() {
        let reached = Cell::new(0);
        let mut dropped_at = Vec::new();
        let mut made = 0;
        let output = drop_after_every_poll(|| {
            dropped_at.push(reached.replace(0));
            made += 1;
            ready(steps(&reached))
        })
        .await;
        assert_eq!((output, made), ("done", 4));
        // The first future is not polled. The others are dropped at the first await, at the second,
        // and so on.
        assert_eq!(dropped_at, [0, 0, 1, 2]);
    }
}
