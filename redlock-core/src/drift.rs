//! How much of a ttl is given up to clocks that run at different rates (rule 2). Pure.

use std::time::Duration;

/// The part of a ttl that is reserved for clocks that run at different rates: `ttl * factor + 2
/// ms`. The description of Redlock has these 2 ms as a margin for the precision of expiries in Redis.
pub(crate) fn drift(ttl: Duration, factor: f64) -> Duration {
    // A factor outside 0..1 is refused earlier. If such a factor gets here, nothing is valid.
    if !(0.0..1.0).contains(&factor) {
        return Duration::MAX;
    }
    // `Duration::mul_f64` does the same in four times the time.
    let nanos = ttl.as_secs_f64() * 1e9 * factor + 0.5;
    // What is beyond a `Moment` leaves nothing valid.
    if nanos >= u64::MAX as f64 {
        return Duration::MAX;
    }
    Duration::from_nanos(nanos as u64).saturating_add(Duration::from_millis(2))
}
