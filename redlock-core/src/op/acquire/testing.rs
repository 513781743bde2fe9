//! Requests as they are when they are first in their process, for tests of what they do from there.

use std::sync::Arc;

use super::request::{Permits, Request};
use crate::{
    client::Client,
    node::queue_keys,
    options::LockOptions,
    resources::Resources,
    settings::Terms,
    wait::{Front, Joined},
};

pub(super) fn terms(client: &Client, options: &LockOptions) -> Terms {
    client.settings.terms(options).unwrap()
}

/// A request for the resource `r`.
pub(super) fn first_request<'a>(client: &'a Arc<Client>, terms: &'a Terms) -> (Request<'a>, Front) {
    let request = request(client, terms);
    let front = joins(&request, &request.key);
    (request, front)
}

/// A request for one of `count` permits of the resource `r`.
pub(super) fn permit_request<'a>(
    client: &'a Arc<Client>,
    terms: &'a Terms,
    count: u32,
) -> (Request<'a>, Front) {
    let mut request = request(client, terms);
    request.key = queue_keys::permit(&request.key, 0).into();
    let queue_name: Arc<str> = queue_keys::queue_name(&request.key).into();
    request.permits =
        Some(Box::new(Permits { queue_name: Arc::clone(&queue_name), count, spare: Vec::new() }));
    let front = joins(&request, &queue_name);
    (request, front)
}

fn request<'a>(client: &'a Arc<Client>, terms: &'a Terms) -> Request<'a> {
    let now = client.nodes.clock.now();
    Request::new(client, Resources::One("r".to_owned()), terms, now, now)
}

fn joins(request: &Request<'_>, queue_name: &Arc<str>) -> Front {
    match request.client.queues.join(queue_name, request.wants(), request.begun) {
        Joined::First(front) => front,
        _ => panic!("another request is before it"),
    }
}
