//! What an operator should change about a server that is used all the same.

use std::sync::Arc;

use super::Identity;

/// The advice for the server of this identity, each in one line.
pub(super) fn advice(identity: &Identity) -> Vec<Arc<str>> {
    let mut advice: Vec<Arc<str>> = Vec::new();
    if identity.run_id.is_none() || identity.is_nameless {
        advice.push(
            "it tells no run id, so every reconnect counts as a restart, after which it gives no \
             votes for max_ttl: allow this user +info, or use Restarts::Trusted if the node persists \
             every write"
                .into(),
        );
    }
    if let Some(policy) = &identity.evicts {
        advice.push(
            format!("it may evict locks: set its maxmemory-policy to noeviction, not {policy}")
                .into(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_hides_or_drops_something_gets_advice() {
        let calm = Identity { run_id: Some("a".into()), ..Identity::default() };
        assert!(advice(&calm).is_empty());
        assert!(advice(&Identity::default())[0].contains("+info"));
        let member = Identity { is_nameless: true, ..calm.clone() };
        assert!(advice(&member)[0].contains("+info"));
        let evicting = Identity { evicts: Some("allkeys-lru".into()), ..calm };
        assert!(advice(&evicting)[0].contains("noeviction, not allkeys-lru"));
    }
}
