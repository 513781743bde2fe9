//! A lease as data.

use std::time::Duration;

use serde::{
    de::{Deserialize, Deserializer, Error},
    ser::{Serialize, Serializer},
};

use super::Lease;
use crate::{fence::FencingToken, resources::Resources, token::Token};

/// Changes when the fields do.
const VERSION: u8 = 1;

/// The fields in a fixed order, so that formats without names can carry them. Times are in
/// milliseconds. There is one resource, or a set. Fingerprints are text: not every format carries 64 bits.
type Fields = (
    u8,
    Vec<String>,
    String,
    u64,
    u64,
    f64,
    bool,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    Vec<String>,
);

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (
            VERSION,
            self.resources.as_slice(),
            self.token.text(),
            millis(self.valid_until),
            millis(self.ttl),
            self.clock_drift_factor,
            self.auto_extend,
            self.fencing_token.map(FencingToken::get),
            // Rounded up: a `min_hold` is never cut short.
            self.min_hold_until.map(|until| millis(until).saturating_add(1)),
            self.max_hold_until.map(millis),
            self.unconfirmed.iter().map(|it| format!("{it:016x}")).collect::<Vec<_>>(),
        )
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        let (version, resources, token, valid_until, ttl, drift, auto_extend, ..) = fields;
        let (.., fence, min, max, unconfirmed) = fields;
        if version != VERSION {
            return Err(D::Error::custom(format_args!(
                "a lease of version {version}, and this release reads version {VERSION}: use one \
                 release of redlock-core on both sides"
            )));
        }
        let resources = Resources::all(resources);
        resources.check().map_err(D::Error::custom)?;
        // What is wrong with it is not told: it may be a secret.
        let broken = || D::Error::custom("this is no lease");
        let fencing_token = match fence {
            None => None,
            Some(number) => Some(FencingToken::from_number(number).ok_or_else(broken)?),
        };
        Ok(Self {
            resources,
            token: Token::parse(&token).ok_or_else(broken)?,
            valid_until: Duration::from_millis(valid_until),
            ttl: Duration::from_millis(ttl),
            clock_drift_factor: drift,
            auto_extend,
            fencing_token,
            min_hold_until: min.map(Duration::from_millis),
            max_hold_until: max.map(Duration::from_millis),
            unconfirmed: unconfirmed
                .iter()
                .map(|it| u64::from_str_radix(it, 16).map_err(|_| broken()))
                .collect::<Result<_, _>>()?,
        })
    }
}
