//! The settings of a node beside its address, checked at `build()`.

use std::time::Duration;

use super::{dial::Dialer, lookup::Lookups, opener::Opener, url::Endpoint};
use crate::{
    error::LockError,
    node::{Context, settings::NodeSettings},
    sync::atomic::AtomicBool,
    telemetry,
};

/// Several URLs that belong to one node.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(super) fn endpoints(what: &str, urls: &[String]) -> Result<Vec<Endpoint>, LockError> {
    let endpoints: Vec<_> =
        urls.iter().map(|it| super::url::parse(it)).collect::<Result<_, _>>()?;
    let mut names = std::collections::BTreeSet::new();
    for Endpoint { name, address, .. } in &endpoints {
        if matches!(address, super::url::Address::Unix(_)) {
            return Err(LockError::config(format!(
                "{what}: {name} is a Unix socket: use addresses that the servers know themselves by"
            )));
        }
        if !names.insert(name) {
            return Err(LockError::config(format!(
                "{what}: {name} is given twice: name each server once"
            )));
        }
    }
    Ok(endpoints)
}

#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(super) fn none(what: &str) -> LockError {
    LockError::config(format!("{what}: no servers: give at least one, as in redis://10.0.0.1:6379"))
}

pub(super) fn misplaced(node: &str, setting: &str, why: &str) -> LockError {
    LockError::config(format!("{setting} on node {node}: {why}"))
}

/// What opens connections with these settings to the server of this endpoint, and to others like it. Each may take as
/// long as the `limit`.
pub(super) fn opener(
    endpoint: Endpoint,
    settings: NodeSettings,
    context: &Context,
    limit: Duration,
) -> Result<Opener, LockError> {
    let Endpoint { name, address, login, protocol } = endpoint;
    if let (Some(setting), false) = (settings.of_tls(), address.is_tls()) {
        return Err(misplaced(&name, setting, "it needs a URL that starts with rediss://"));
    }
    if settings.credentials.is_some() && !address.is_private() {
        telemetry::unencrypted(&name);
    }
    Ok(Opener {
        dialer: Dialer {
            lookups: Lookups::new(),
            #[cfg(feature = "tls-rustls")]
            tls: super::tls::Tls::new(settings.tls, limit, context.connect_timeout)?,
        },
        login,
        credentials: settings.credentials,
        protocol,
        asks_no_native: AtomicBool::new(false),
        replicas: settings.replicas,
        node_timeout: context.node_timeout,
        limit,
        is_cluster: false,
    })
}
