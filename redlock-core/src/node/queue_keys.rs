//! The keys beside a lock that a queue between processes is made of, the same for all clients.
//!
//! | key | what |
//! |---|---|
//! | `LOCK:{LOCK}:queue` | a ZSET of the waiters, by their places |
//! | `LOCK:{LOCK}:queue:turn` | there while a waiter has its turn, and has neither left nor released the lock |
//! | `LOCK:{LOCK}:alive:WAITER` | there while the waiter says that it is alive |
//! | `LOCK:{LOCK}:turn:WAITER` | written when it is the waiter's turn |
//! | `LOCK:{LOCK}:next:WAITER` | written when the waiter is the next to get the turn |
//! | `LOCK:{LOCK}:near:WAITER` | written when the waiter is the second or third behind a turn that may not be used |
//! | `LOCK:{LOCK}:permit:given` | a ZSET of the waiters for a permit that have their turns and have not asked yet, by when their turns are over |
//! | `LOCK:{LOCK}:permit:coming` | a ZSET of the permits that clients were told of and whose keys they have yet to set, by when they have |
//! | `LOCK:{LOCK}:permit:askers` | a ZSET of the clients that have asked for a permit within the last second, by when they did |
//! | `LOCK:{LOCK}:barrier` | the barrier of a writer that waits, and has later readers wait: its place, and its name |
//!
//! `turn`, `next` and `near` are pushed to the waiter that tracks them, and are deleted as soon as they are
//! written.

use super::{Claim, fnv1a};

/// How many waiters may stand in one queue. A waiter beyond them asks from time to time.
pub(crate) const MAX_WAITERS: u64 = 10_000;

/// The prefix of these keys. They share the hash slot of the lock, unless the key of the lock has a brace that closes
/// nothing. They begin like that key, so that an account that may access the locks (`~redlock:*`) may access them too.
pub(crate) fn prefix(key: &str) -> String {
    prefix_parts(key).concat()
}

fn prefix_parts(key: &str) -> [&str; 4] {
    let key = queue_name(key);
    if has_brace(key) {
        // Either the key has a tag, which servers hash instead of the whole key, or its brace would end
        // a tag around it too early.
        return [key, "", "", ""];
    }
    [key, ":{", key, "}"]
}

fn has_brace(name: &str) -> bool {
    name.bytes().any(|it| matches!(it, b'{' | b'}'))
}

/// The key of the queue itself.
pub(crate) fn queue(key: &str) -> String {
    queue_parts(key).concat()
}

/// The key of the queue in parts. A release writes one after the other, without a string in between.
pub(crate) fn queue_parts(key: &str) -> [&str; 5] {
    let [key, open, tag, close] = prefix_parts(key);
    [key, open, tag, close, ":queue"]
}

/// The key of one of the permits of a lock.
pub(crate) fn permit(key: &str, number: u32) -> String {
    format!("{}:permit:{number}", prefix(key))
}

/// The name of the queue before a key. All permits of a lock have one queue: the number of a permit is no
/// part of it.
pub(crate) fn queue_name(key: &str) -> &str {
    match key.rsplit_once(':') {
        Some((queue_name, number))
            if is_queue_of_permits(queue_name)
                && !number.is_empty()
                && number.bytes().all(|it| it.is_ascii_digit()) =>
        {
            queue_name
        }
        _ => key,
    }
}

/// A hash of that name.
pub(crate) fn queue_hash(key: &str) -> u64 {
    fnv1a(queue_name(key).as_bytes())
}

/// The lock whose permits have this queue; any other name as it is. A key with a hash tag of its own is
/// not told from the name of its queue.
pub(crate) fn lock_of_permits(queue_name: &str) -> &str {
    let Some(prefix) = queue_name.strip_suffix(":permit") else { return queue_name };
    // The key, then a colon and the key in braces.
    let key = prefix.len().checked_sub(3).and_then(|rest| prefix.get(..rest / 2));
    key.filter(|key| prefix == self::prefix(key)).unwrap_or(queue_name)
}

/// Whether this is the name of the queue of permits. Such a name has a brace, which the prefix brings along.
/// So a lock whose name happens to end like this stands before a queue of its own, unless its own name has
/// braces.
pub(crate) fn is_queue_of_permits(queue_name: &str) -> bool {
    queue_name.strip_suffix(":permit").is_some_and(has_brace)
}

/// The barrier of a writer that waits before a lock.
pub(crate) fn barrier(key: &str) -> String {
    format!("{}:barrier", prefix(key))
}

/// The keys through which the waiter of this claim is told of its turn, that it is the next, and that it is
/// near.
pub(crate) fn wake_keys(claim: &Claim) -> [String; 3] {
    let (prefix, waiter) = (prefix(&claim.key), &claim.value);
    ["turn", "next", "near"].map(|what| format!("{prefix}:{what}:{waiter}"))
}

#[cfg(test)]
mod tests {
    use super::{is_queue_of_permits, permit, prefix, queue, queue_name};

    #[test]
    fn companions_share_the_slot_of_their_lock() {
        assert_eq!(prefix("redlock:a"), "redlock:a:{redlock:a}");
        assert_eq!(prefix("redlock:{a}:b"), "redlock:{a}:b", "it has a tag already");
        assert_eq!(prefix("a}b"), "a}b", "no tag can hold it");
        assert_eq!(queue("redlock:a"), "redlock:a:{redlock:a}:queue");
        assert_eq!(queue("redlock:{a}:b"), "redlock:{a}:b:queue");
        let permit = permit("redlock:a", 17);
        assert_eq!(permit, "redlock:a:{redlock:a}:permit:17");
        assert_eq!(prefix(&permit), "redlock:a:{redlock:a}:permit", "one queue for all");
        assert_eq!(queue(&permit), "redlock:a:{redlock:a}:permit:queue");
    }

    #[test]
    fn only_a_key_with_a_brace_is_that_of_a_permit() {
        let lines = ["redlock:a:{redlock:a}:permit", "redlock:{a}:permit", "a}b:permit"];
        for (key, permits) in ["redlock:a", "redlock:{a}", "a}b"].into_iter().zip(lines) {
            assert_eq!(queue_name(&permit(key, 17)), permits);
            assert!(is_queue_of_permits(permits));
        }
        for key in ["redlock:a:permit:17", "redlock:{a}:permit:", "redlock:{a}:permit:x"] {
            assert_eq!((queue_name(key), prefix(key).starts_with(key)), (key, true));
        }
        assert!(!is_queue_of_permits("redlock:a:permit"));
    }
}
