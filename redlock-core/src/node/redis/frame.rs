//! Finds the end of a reply in a stream of bytes, and reads the reply.
//!
//! Nearly every reply to a lock's commands is one of four short lines, read here without an
//! allocation; redis-rs reads all other replies.

use redis::Value;

/// No reply to a lock's command and no push is longer: the longest, a full queue of clients with the
/// longest names, takes 1.1 MiB. A server that announces a longer reply is not a Redis server, and the reply
/// is not stored (rule 18).
pub(super) const MAX_FRAME: usize = 2 << 20;

/// All replies of a server until its identity is known take no more: they are a few KiB, and 100 KiB where a proxy
/// gives the whole of `INFO` for each section. redis-rs reads them, and takes up to 20 bytes of memory for each byte
/// (rule 18).
pub(super) const MAX_GREETING: usize = 512 << 10;

/// No answer of a sentinel, and none about a cluster, takes more. `CLUSTER SLOTS` of 1,000 members takes less than
/// 400 KiB where the slots of each are in a row, and less than 3 MiB where each of the 16,384 slots stands alone
/// and its master has a replica. redis-rs reads it (rule 18).
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(super) const MAX_TOPOLOGY: usize = 4 << 20;

/// The reply to a grant.
const OK: &[u8] = b"+OK\r\n";

/// The bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotRedis;

/// How many bytes the first reply takes; `None` when it is not complete yet.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, NotRedis> {
    if bytes.starts_with(OK) {
        return Ok(Some(OK.len()));
    }
    // Values that are still to come: those of an array, and of arrays in it.
    let (mut at, mut open) = (0_usize, 1_usize);
    while open > 0 {
        if at > MAX_FRAME || open > MAX_FRAME {
            return Err(NotRedis);
        }
        let Some(rest) = bytes.get(at..) else { return Ok(None) };
        let Some(&kind) = rest.first() else { return Ok(None) };
        let Some(end) = rest.iter().position(|byte| *byte == b'\r') else {
            return if is_kind(kind) && rest.len() <= MAX_FRAME { Ok(None) } else { Err(NotRedis) };
        };
        // A reply that begins with the end of its line has no kind.
        let head = rest.get(1..end).ok_or(NotRedis)?;
        open -= 1;
        at += end + 2;
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'!' | b'=' => at += count(head)?.map_or(0, |length| length + 2),
            b'*' | b'~' | b'>' => open += count(head)?.unwrap_or(0),
            b'%' => open += 2 * count(head)?.unwrap_or(0),
            // Attributes stand in front of the value that they describe.
            b'|' => open += 2 * count(head)?.unwrap_or(0) + 1,
            _ => return Err(NotRedis),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// Whether a reply may begin with this.
fn is_kind(byte: u8) -> bool {
    b"+-:_#,($!=*~>%|".contains(&byte)
}

/// A length; `None` is the null of RESP2, `-1`.
fn count(digits: &[u8]) -> Result<Option<usize>, NotRedis> {
    match integer(digits) {
        Some(-1) => Ok(None),
        Some(count) => match usize::try_from(count) {
            Ok(count) if count <= MAX_FRAME => Ok(Some(count)),
            Ok(_) | Err(_) => Err(NotRedis),
        },
        None => Err(NotRedis),
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads a reply that is complete.
pub(super) fn read(frame: &[u8]) -> Result<Value, NotRedis> {
    match frame {
        OK => Ok(Value::Okay),
        b"$-1\r\n" | b"_\r\n" => Ok(Value::Nil),
        [b':', digits @ .., b'\r', b'\n'] => integer(digits).map(Value::Int).ok_or(NotRedis),
        _ => redis::parse_redis_value(frame).map_err(|_| NotRedis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::queue_keys::MAX_WAITERS,
        token::{OsEntropy, ascii_name, fresh_value},
    };

    /// One reply of each kind, with nothing after it.
    const REPLIES: [&str; 20] = [
        "+OK\r\n",
        "+PONG\r\n",
        "-ERR no\r\n",
        ":1\r\n",
        ":-3\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$4\r\na\r\nb\r\n",
        "=7\r\ntxt:a\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
        "%3\r\n+a\r\n*1\r\n:2\r\n+b\r\n:1\r\n+c\r\n:1\r\n",
        "|3\r\n+a\r\n:1\r\n+b\r\n:2\r\n+c\r\n:3\r\n+OK\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
    ];

    #[test]
    fn a_reply_ends_where_it_ends_and_not_before() {
        for reply in REPLIES {
            let bytes = reply.as_bytes();
            for part in 0..bytes.len() {
                assert_eq!(length(&bytes[..part]), Ok(None), "{reply:?} cut after {part}");
            }
            let two = [bytes, b":1\r\n"].concat();
            assert_eq!(length(&two), Ok(Some(bytes.len())), "{reply:?}");
        }
    }

    #[test]
    fn a_reply_is_read_as_redis_rs_reads_it() {
        for reply in REPLIES {
            let ours = read(reply.as_bytes()).unwrap();
            assert_eq!(ours, redis::parse_redis_value(reply.as_bytes()).unwrap(), "{reply:?}");
        }
    }

    /// The longest of all replies.
    #[test]
    fn a_full_queue_of_clients_with_long_names_can_be_looked_at() {
        let name = ascii_name(&"x".repeat(1000));
        let value = fresh_value(&OsEntropy, &name).unwrap();
        let value = format!("${}\r\n{value}\r\n", value.len());
        let waiting = value.repeat(usize::try_from(MAX_WAITERS).unwrap());
        let reply = format!("*3\r\n{value}:30000\r\n*{MAX_WAITERS}\r\n{waiting}");
        assert_eq!(length(reply.as_bytes()), Ok(Some(reply.len())));
    }

    #[test]
    fn bytes_that_are_no_reply_are_refused_before_they_are_complete() {
        for bytes in
            ["HTTP/1.1 400", "\r\n", "garbage\r\n", "$x\r\n", "$-2\r\n", "*9999999999\r\n", "$\r\n"]
        {
            assert_eq!(length(bytes.as_bytes()), Err(NotRedis), "{bytes:?}");
        }
        assert_eq!(length(format!("${}\r\n", MAX_FRAME + 1).as_bytes()), Err(NotRedis));
        assert_eq!(length("*9999\r\n".repeat(9999).as_bytes()), Err(NotRedis), "grows for ever");
        let half = format!("${}\r\n{}\r\n", MAX_FRAME / 2, "x".repeat(MAX_FRAME / 2));
        assert_eq!(length(format!("*4\r\n{}", half.repeat(3)).as_bytes()), Err(NotRedis));
        assert_eq!(length(&vec![b'+'; MAX_FRAME + 1]), Err(NotRedis), "a line without an end");
        assert_eq!(read(b":one\r\n"), Err(NotRedis));
    }
}
