//! The locks that this client has let go of while others waited: for a moment, it does not ask for
//! them. Pure.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::clock::Moment;

/// By key, until when another client has its turn. What is over goes as others come (rule 18).
#[derive(Debug, Default)]
pub(super) struct Yielding {
    until: HashMap<Arc<str>, Moment>,
    order: VecDeque<(Moment, Arc<str>)>,
}

impl Yielding {
    pub(super) fn add(&mut self, key: &Arc<str>, until: Moment) {
        self.until.insert(Arc::clone(key), until);
        self.order.push_back((until, Arc::clone(key)));
        // Two for one, so that it shrinks.
        for _ in 0..2 {
            if self.order.front().is_some_and(|(over, _)| *over < until) {
                self.forget_first();
            }
        }
    }

    fn forget_first(&mut self) {
        if let Some((over, key)) = self.order.pop_front()
            && self.until.get(&key) == Some(&over)
        {
            self.until.remove(&key);
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if !self.until.is_empty() {
            self.until.remove(key);
        }
        if self.until.is_empty() {
            self.order.clear();
        }
    }

    pub(super) fn contains(&self, key: &str, now: Moment) -> bool {
        !self.until.is_empty() && self.until.get(key).is_some_and(|until| now < *until)
    }
}
