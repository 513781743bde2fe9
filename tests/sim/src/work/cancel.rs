//! Futures that are dropped before they are ready.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use super::super::{plan::Cancel, world::ms};

/// Runs a future, or drops it when it is time: None.
pub(super) async fn cancellable<F: Future>(future: F, cancel: Option<Cancel>) -> Option<F::Output> {
    match cancel {
        None => Some(future.await),
        Some(Cancel::After(span)) => tokio::time::timeout(ms(span), future).await.ok(),
        Some(Cancel::Woken(most)) => {
            let mut future = pin!(future);
            let mut woken = 0;
            poll_fn(|cx| {
                if woken > most {
                    return Poll::Ready(None);
                }
                woken += 1;
                future.as_mut().poll(cx).map(Some)
            })
            .await
        }
        Some(Cancel::Polls(most)) => {
            let mut future = pin!(future);
            let mut polls = 0;
            poll_fn(|cx| {
                if polls == most {
                    return Poll::Ready(None);
                }
                polls += 1;
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => Poll::Ready(Some(output)),
                    Poll::Pending if polls == most => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        }
    }
}

/// Calls a function when it is dropped.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
