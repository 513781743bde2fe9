//! The slots of a cluster: where a key belongs.

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key. Keys with the same text between the first `{` and the next `}` share one.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{counter, queue_keys};

    /// As the specification of the cluster gives it, and as servers compute it.
    #[test]
    fn slots_are_those_of_servers() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("somekey"), 11_058);
        assert_eq!(slot_of("foo{hash_tag}"), 2_515);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
    }

    #[test]
    fn a_lock_and_what_stands_beside_it_share_a_slot() {
        for key in ["redlock:a", "redlock:{a}:b", "a", "invoice:42"] {
            assert_eq!(slot_of(key), slot_of(&queue_keys::queue(key)), "{key}");
            assert_eq!(slot_of(key), slot_of(&counter::key(key)), "{key}");
        }
    }
}
