//! The answer of a member of a cluster that does not have a key.

use redis::Value;

/// Where the key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// The slot of the key.
    pub(super) slot: u16,
    /// The member that has it. The host is empty when it is that of the member that answered.
    pub(super) host: String,
    pub(super) port: u16,
    /// Only for this one command: the slot is on its way there (`ASK`).
    pub(super) once: bool,
}

impl Redirect {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`.
    pub(super) fn of(answer: &Value) -> Option<Self> {
        let Value::ServerError(error) = answer else { return None };
        let once = match error.code() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (slot, address) = error.details()?.split_once(' ')?;
        // An IPv6 address has colons of its own.
        let (host, port) = address.rsplit_once(':')?;
        let (slot, port) = (slot.parse().ok()?, port.parse().ok()?);
        Some(Self { slot, host: host.to_owned(), port, once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Redirect> {
        Redirect::of(&redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap())
    }

    #[test]
    fn a_member_says_where_a_key_is() {
        let at =
            |host: &str, once| Redirect { slot: 3999, host: host.to_owned(), port: 6381, once };
        assert_eq!(of("MOVED 3999 10.0.0.1:6381"), Some(at("10.0.0.1", false)));
        assert_eq!(of("ASK 3999 10.0.0.1:6381"), Some(at("10.0.0.1", true)));
        assert_eq!(of("MOVED 3999 ::1:6381"), Some(at("::1", false)));
        assert_eq!(of("MOVED 3999 :6381"), Some(at("", false)), "the host that answered");
    }

    #[test]
    fn other_answers_say_nothing() {
        for text in ["MOVED", "MOVED x 1:1", "MOVED 1 host", "MOVED 70000 h:1", "ERR MOVED 1 h:1"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(Redirect::of(&Value::Nil), None);
    }
}
