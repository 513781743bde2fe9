//! Waiting as the description of Redlock has it: ask, and ask again after a random pause.

use std::time::Duration;

/// The longest pause, as in rslock's defaults.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A value that no other client sets ("20 bytes from /dev/urandom").
pub(super) type Token = [u8; 20];

/// Random bytes from the operating system.
pub(super) fn token() -> Token {
    let mut token = Token::default();
    getrandom::fill(&mut token).expect("the operating system has random bytes");
    token
}

/// The pause after an attempt that was refused.
pub(super) async fn pause() {
    let chance = f64::from(token()[0]) / 255.0;
    tokio::time::sleep(LONGEST_PAUSE.mul_f64(chance)).await;
}

/// The smallest number of nodes that is a quorum.
pub(super) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Deletes the key if it has our value.
pub(super) const DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
