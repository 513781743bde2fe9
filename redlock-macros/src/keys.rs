//! The keys of the attribute, each declared once: a new setting is a row here. The settings are passed
//! on to the lock; the other keys say what is locked, with which client, and what becomes of the body.

use syn::Ident;

use crate::setting::Kind;

/// The settings of the lock, each a row: a setter of `LockOptions`, what its values are, and an example
/// for error messages. `setting.rs` reads the values and writes the call of the setter.
pub(crate) const SETTINGS: &[(&str, Kind, &str)] = &[
    ("ttl", Kind::PositiveExpiry, "ttl = \"30s\""),
    ("wait", Kind::Time, "wait = \"2s\""),
    ("retry_count", Kind::Count, "retry_count = 5"),
    ("retry_delay", Kind::Time, "retry_delay = 50"),
    ("retry_jitter", Kind::Time, "retry_jitter = 20"),
    ("clock_drift_factor", Kind::Factor, "clock_drift_factor = 0.01"),
    ("auto_extend", Kind::Toggle, "auto_extend = false"),
    ("max_hold", Kind::PositiveTime, "max_hold = \"10m\""),
    ("min_hold", Kind::Expiry, "min_hold = \"1s\""),
    ("fenced", Kind::Word, "fenced"),
    ("shared", Kind::Word, "shared"),
    ("permits", Kind::Permits, "permits = 3"),
    ("label", Kind::Label, "label = \"invoice\""),
];

/// The other keys. `$then` gets a row for each: its field in `Args`, the type of its value, how the value
/// is read (a key that is read as `flag` has none), and an example for error messages.
macro_rules! other_keys {
    ($then:ident) => {
        $then! {
            resource: Resource = value(resource::resource), "resource = \"order:{order_id}\"";
            resources: Resource = value(resource::resources), "resources = [\"account:{from}\", \"account:{to}\"]";
            pool: PoolName = value(nodes::pool), "pool = \"orders\"";
            pools: PoolNames = value(nodes::pools), "pools = [\"a\", \"b\", \"c\"]";
            client: Expr = value(nodes::client), "client = self.locks";
            lock: Ident = value(value::name), "lock = guard";
            map_err: Expr = value(value::function), "map_err = AppError::locked";
            on_reject: Expr = value(value::function), "on_reject = |error| ..";
            skip_if_held: () = flag(), "skip_if_held";
            on_lost: OnLost = value(value::on_lost), "on_lost = \"continue\"";
        }
    };
}
pub(crate) use other_keys;

/// `crate` is not among the suggestions: it is a keyword, and users do not mean it by mistake.
pub(crate) const CRATE: (&str, &str) = ("crate", "crate = redlock_core");

macro_rules! examples {
    ($($key:ident: $type:ty = $take:ident($($read:path)?), $example:literal;)*) => {
        const OTHERS: &[(&str, &str)] = &[$((stringify!($key), $example)),*];
    };
}
other_keys!(examples);

/// The name of every key but `crate`, and an example of it.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = SETTINGS.iter().map(|(name, _, example)| (*name, *example));
    OTHERS.iter().copied().chain(settings)
}

/// An example of a key. `None` when there is no such key.
pub(crate) fn usage(key: &Ident) -> Option<&'static str> {
    all().chain([CRATE]).find(|(name, _)| key == name).map(|(_, example)| example)
}
