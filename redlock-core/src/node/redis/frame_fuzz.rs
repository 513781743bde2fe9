//! The reader of replies, over any bytes.

use super::frame::{length, read};

/// Reads the bytes as a stream of replies, and checks what must be true of any input.
///
/// # Panics
///
/// When it is not.
pub fn frames(mut bytes: &[u8]) {
    while let Ok(Some(taken)) = length(bytes) {
        assert!(0 < taken && taken <= bytes.len(), "a reply of {taken} in {} bytes", bytes.len());
        let (frame, rest) = bytes.split_at(taken);
        // A reply is found as soon as it is complete, whatever bytes follow, and no earlier.
        assert_eq!(length(frame), Ok(Some(taken)), "{frame:?}");
        for part in [taken / 2, taken - 1] {
            assert_ne!(length(&frame[..part]), Ok(Some(part)), "{frame:?}");
        }
        if let (Ok(ours), Ok(theirs)) = (read(frame), redis::parse_redis_value(frame)) {
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{frame:?}");
        }
        bytes = rest;
    }
}
