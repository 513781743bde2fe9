//! The queues of readers, beside that of the writers of the same lock.

use std::sync::Arc;

/// What stands between the key of a lock and the rest of the name of such a queue. No key of a lock ends
/// like this.
const MARK: &str = "\0reader";

/// The queue in which the readers of a lock wait.
pub(crate) fn line_of_readers(key: &str) -> Arc<str> {
    format!("{key}{MARK}s").into()
}

/// The queue of one reader that asks without waiting for other readers.
pub(crate) fn line_of_one(key: &str, number: u64) -> Arc<str> {
    format!("{key}{MARK}-{number}").into()
}

/// The key of the lock that a queue stands before.
pub(super) fn lock_of(queue: &str) -> &str {
    queue.rsplit_once(MARK).map_or(queue, |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_leads_to_its_lock() {
        for key in ["redlock:r", "redlock:r\0", "reader"] {
            assert_eq!(lock_of(key), key);
            assert_eq!(lock_of(&line_of_readers(key)), key);
            assert_eq!(lock_of(&line_of_one(key, 7)), key);
        }
    }
}
