//! A lease as data.

use std::{fmt, time::Duration};

use serde::{
    de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor},
    ser::{Serialize, Serializer},
};

use super::Lease;
use crate::{fence::FencingToken, resources::Resources, token::Token};

/// Changes when the fields do.
const VERSION: u8 = 3;

/// The fields are in a fixed order, so that formats without names can carry them. Times are in
/// milliseconds. There is one resource, or a set. Fingerprints are text: not every format carries 64 bits.
const FIELDS: usize = 12;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (
            VERSION,
            self.resources.as_slice(),
            &self.value,
            millis(self.valid_until),
            millis(self.ttl),
            self.clock_drift_factor,
            self.auto_extend,
            self.fencing_token.map(FencingToken::get),
            // Rounded up: a `min_hold` is never cut short.
            self.min_hold_until.map(|until| millis(until).saturating_add(1)),
            self.max_hold_until.map(millis),
            millis(self.keys_until).saturating_add(1),
            self.unconfirmed.iter().map(|it| format!("{it:016x}")).collect::<Vec<_>>(),
        )
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What is wrong with a lease is not told: it may be a secret (rule 19).
        match deserializer.deserialize_tuple(FIELDS, Reader) {
            Ok(read) => read.map_err(D::Error::custom),
            Err(_) => Err(D::Error::custom(BROKEN)),
        }
    }
}

const BROKEN: &str = "this is no lease, or it cannot be read";

/// Reads the version before anything else: another release may have other fields.
struct Reader;

fn broken() -> String {
    BROKEN.to_owned()
}

fn next<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(fields: &mut A) -> Result<T, String> {
    fields.next_element().ok().flatten().ok_or_else(broken)
}

impl<'de> Visitor<'de> for Reader {
    /// The text says what is wrong, and nothing of the lease.
    type Value = Result<Lease, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lease")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let read = read(&mut fields);
        if read.is_err() {
            // A format that knows the end of its lists would complain of what is left, and not of what is wrong.
            while let Ok(Some(IgnoredAny)) = fields.next_element() {}
        }
        Ok(read)
    }
}

fn read<'de, A: SeqAccess<'de>>(fields: &mut A) -> Result<Lease, String> {
    let version: u8 = next(fields)?;
    if version != VERSION {
        return Err(format!(
            "a lease of version {version}, and this release reads version {VERSION}: use one \
             release of redlock-core on both sides"
        ));
    }
    let resources = Resources::all(next::<_, Vec<String>>(fields)?);
    resources.check().map_err(|error| error.to_string())?;
    let value: String = next(fields)?;
    Token::of_value(&value).ok_or_else(broken)?;
    Ok(Lease {
        resources,
        value,
        valid_until: Duration::from_millis(next(fields)?),
        ttl: Duration::from_millis(next(fields)?),
        clock_drift_factor: next(fields)?,
        auto_extend: next(fields)?,
        fencing_token: match next(fields)? {
            None => None,
            Some(number) => Some(FencingToken::from_number(number).ok_or_else(broken)?),
        },
        min_hold_until: next::<_, Option<_>>(fields)?.map(Duration::from_millis),
        max_hold_until: next::<_, Option<_>>(fields)?.map(Duration::from_millis),
        keys_until: Duration::from_millis(next(fields)?),
        unconfirmed: next::<_, Vec<String>>(fields)?
            .iter()
            .map(|it| u64::from_str_radix(it, 16).map_err(|_| broken()))
            .collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(lease: &serde_json::Value) -> String {
        serde_json::from_str::<Lease>(&lease.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn a_lease_of_another_release_is_told_by_its_version_whatever_its_fields_are() {
        for lease in [json!([4]), json!([4, {"resources": ["a"]}, 7]), json!([4, ["a"], "b", 1, 2])]
        {
            assert!(error(&lease).starts_with("a lease of version 4, and "), "{lease}");
        }
    }

    #[test]
    fn what_is_no_lease_is_not_shown() {
        let secret = "0123456789abcdef0123456789abcdef01234567";
        for lease in [
            json!(format!("[{VERSION},[\"a\"],\"{secret}.me\"]")),
            json!({ "token": secret }),
            json!([]),
            json!([secret]),
            json!([VERSION, secret]),
            json!([VERSION, ["a"], [secret]]),
            json!([VERSION, ["a"], secret]),
            json!([VERSION, ["a"], format!("{secret}.me"), secret]),
        ] {
            let error = error(&lease);
            assert!(error.starts_with("this is no lease"), "{lease}: {error}");
        }
    }
}
