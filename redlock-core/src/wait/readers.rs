//! The queues of readers and of permits, beside that of the writers of the same lock.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::node::queue_keys;

/// Separates the key of a lock from the rest of the name of such a queue. The key of another lock may end like this:
/// the two then have their turns one after the other, and no lease passes between them (`Wants::fits`).
const MARK: &str = "\0reader";

/// Separates the name of the queue of all permits from the number of a request for one.
const PERMIT: &str = "\0permit-";

/// The queue in which the readers of a lock wait.
pub(crate) fn queue_of_readers(key: &str) -> Arc<str> {
    format!("{key}{MARK}s").into()
}

/// A queue for one reader that asks without waiting for other readers.
pub(crate) fn queue_of_one(key: &str) -> Arc<str> {
    format!("{key}{MARK}-{}", fresh_number()).into()
}

/// A queue for one request for a permit that asks without waiting for others.
pub(crate) fn queue_of_one_permit(queue_name: &str) -> Arc<str> {
    format!("{queue_name}{PERMIT}{}", fresh_number()).into()
}

/// Each request that asks by itself has a queue of its own.
fn fresh_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The key of the lock that a queue stands before.
pub(super) fn lock_of(queue: &str) -> &str {
    match queue.rsplit_once(MARK).or_else(|| queue.rsplit_once(PERMIT)) {
        Some((key, _)) => queue_keys::lock_of_permits(key),
        None => queue_keys::lock_of_permits(queue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_leads_to_its_lock() {
        for key in ["redlock:r", "redlock:r\0", "reader"] {
            assert_eq!(lock_of(key), key);
            assert_eq!(lock_of(&queue_of_readers(key)), key);
            assert_eq!(lock_of(&queue_of_one(key)), key);
            let permit = queue_keys::permit(key, 3);
            assert_eq!(lock_of(queue_keys::queue_name(&permit)), key);
            assert_eq!(lock_of(&queue_of_one_permit(queue_keys::queue_name(&permit))), key);
        }
    }
}
