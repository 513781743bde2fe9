//! Which member of a cluster is the master of which slots, as a member tells it.

use std::ops::RangeInclusive;

use redis::{FromRedisValue, Value};

use super::slots::SLOTS;

/// The address of a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberAddress {
    pub(super) host: String,
    pub(super) port: u16,
}

impl MemberAddress {
    /// The address that a member has told. An empty host and `?` mean that the member has no other name for the
    /// host than the one by which this client has `reached` it.
    pub(super) fn told(host: &str, port: u16, reached: &str) -> Self {
        let host = if matches!(host, "" | "?") { reached } else { host };
        Self { host: host.to_owned(), port }
    }
}

/// The master of some slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) place: MemberAddress,
    /// The name that the cluster has for it.
    pub(super) id: String,
}

/// Reads `CLUSTER SLOTS`, as the member at `host` has answered it.
pub(super) fn read(answer: &Value, host: &str) -> Option<Vec<Shard>> {
    let Value::Array(entries) = answer else { return None };
    entries.iter().map(|entry| shard(entry, host)).collect()
}

fn shard(entry: &Value, host: &str) -> Option<Shard> {
    let Value::Array(entry) = entry else { return None };
    let [first, last, Value::Array(master), ..] = &entry[..] else { return None };
    let (first, last): (u16, u16) = (get(first)?, get(last)?);
    if first > last || last >= SLOTS {
        return None;
    }
    let [its_host, port, rest @ ..] = &master[..] else { return None };
    // Null says the same as an empty one.
    let its_host: Option<String> = get(its_host)?;
    let place = MemberAddress::told(&its_host.unwrap_or_default(), get(port)?, host);
    // Servers before Redis 4 tell no name.
    let id = rest.first().and_then(get).unwrap_or_else(|| format!("{place:?}"));
    Some(Shard { slots: first..=last, place, id })
}

fn get<T: FromRedisValue>(value: &Value) -> Option<T> {
    redis::from_redis_value_ref(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> MemberAddress {
        MemberAddress { host: host.to_owned(), port }
    }

    fn answer(text: &str) -> Option<Vec<Shard>> {
        read(&redis::parse_redis_value(text.replace(' ', "\r\n").as_bytes()).unwrap(), "asked")
    }

    #[test]
    fn a_member_tells_the_masters_of_slots() {
        let shards = answer(
            "*2 *4 :0 :100 *3 $1 a :7000 $2 n1 *3 $1 r :7001 $2 n2 *3 :101 :16383 *2 $0  :7002 ",
        )
        .unwrap();
        assert_eq!(shards[0], Shard { slots: 0..=100, place: at("a", 7000), id: "n1".to_owned() });
        assert_eq!((&shards[1].slots, &shards[1].place), (&(101..=16_383), &at("asked", 7002)));
        assert_eq!(answer("*1 *3 :0 :1 *3 _ :1 $1 n ").unwrap()[0].place, at("asked", 1));
        assert_eq!(answer("*0 "), Some(Vec::new()));
    }

    #[test]
    fn nonsense_is_none() {
        for text in ["+OK ", "*1 :1 ", "*1 *3 :5 :4 *2 $1 a :1 ", "*1 *3 :0 :16384 *2 $1 a :1 "] {
            assert_eq!(answer(text), None, "{text}");
        }
    }
}
