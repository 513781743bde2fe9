//! The keys of the attribute, and how each is written.

use syn::Ident;

/// Every key, and an example of it.
pub(crate) const KEYS: [(&str, &str); 23] = [
    ("resource", "resource = \"order:{order_id}\""),
    ("resources", "resources = [\"account:{from}\", \"account:{to}\"]"),
    ("ttl", "ttl = \"30s\""),
    ("wait", "wait = \"2s\""),
    ("pool", "pool = \"orders\""),
    ("pools", "pools = [\"a\", \"b\", \"c\"]"),
    ("client", "client = self.locks"),
    ("retry_count", "retry_count = 5"),
    ("retry_delay", "retry_delay = 50"),
    ("retry_jitter", "retry_jitter = 20"),
    ("clock_drift_factor", "clock_drift_factor = 0.01"),
    ("lock", "lock = guard"),
    ("map_err", "map_err = AppError::locked"),
    ("on_reject", "on_reject = |error| .."),
    ("skip_if_held", "skip_if_held"),
    ("max_hold", "max_hold = \"10m\""),
    ("min_hold", "min_hold = \"1s\""),
    ("auto_extend", "auto_extend = false"),
    ("fenced", "fenced"),
    ("shared", "shared"),
    ("permits", "permits = 3"),
    ("on_lost", "on_lost = \"continue\""),
    ("label", "label = \"invoice\""),
];

/// `crate` is not among the suggestions: it is a keyword, and users do not mean it by mistake.
pub(crate) const CRATE: (&str, &str) = ("crate", "crate = redlock_core");

/// An example of a key. `None` when there is no such key.
pub(crate) fn usage(key: &Ident) -> Option<&'static str> {
    KEYS.iter().chain([&CRATE]).find(|(name, _)| key == name).map(|(_, usage)| *usage)
}
