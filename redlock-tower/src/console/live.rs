//! Keeps an open page up to date.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Body;
use futures_util::stream;
use redlock_core::Redlock;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep, sleep_until},
};

use super::{page, snapshot::Snapshot};

/// The pause between two events.
const PAUSE: Duration = Duration::from_secs(1);

/// How long one answer goes on. The page then asks again. A server that shuts down waits for its
/// answers to end.
const LONGEST: Duration = Duration::from_secs(10);

struct Viewer {
    redlock: Redlock,
    ends: Instant,
    /// Nothing was sent yet.
    is_new: bool,
    _place: Place,
}

/// The place of a page. It is free when the page is closed, or when its answer should have ended: nothing polls the
/// answer to a browser that does not read.
struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    fn new(place: OwnedSemaphorePermit, ends: Instant) -> Self {
        let place = Arc::new(Mutex::new(Some(place)));
        let kept = Arc::downgrade(&place);
        tokio::spawn(async move {
            sleep_until(ends).await;
            if let Some(kept) = kept.upgrade() {
                drop(Self(kept));
            }
        });
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// An event now and after each pause: what is inside `main` of the page.
pub(super) fn events(redlock: Redlock, place: OwnedSemaphorePermit) -> Body {
    let ends = Instant::now() + LONGEST;
    let place = Place::new(place, ends);
    let viewer = Viewer { redlock, ends, is_new: true, _place: place };
    Body::from_stream(stream::unfold(viewer, |mut viewer| async move {
        if !std::mem::take(&mut viewer.is_new) {
            sleep(PAUSE).await;
            if Instant::now() >= viewer.ends {
                return None;
            }
        }
        let state = page::state(&Snapshot::take(&viewer.redlock).await);
        Some((Ok::<_, Infallible>(event(&state)), viewer))
    }))
}

/// One event. A line of the page is a line of the event; names have no line breaks.
fn event(state: &str) -> String {
    let lines: String = state.lines().flat_map(|line| ["data: ", line, "\n"]).collect();
    format!("retry: 1000\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_lines_of_the_page() {
        assert_eq!(
            event("<p>a</p>\n<p>b</p>\n"),
            "retry: 1000\ndata: <p>a</p>\ndata: <p>b</p>\n\n"
        );
    }
}
