//! What nodes do.

use super::{
    action::{Request, tokens},
    client::is_current,
    rules::{Omission, Protocol},
    state::{Core, Key, Node, Phase, Token},
};

impl Node {
    /// One tick of the node's clock.
    pub(super) fn age(&mut self) {
        self.key = self.key.and_then(|key| {
            let left = key.left - 1;
            (left > 0).then_some(Key { left, ..key })
        });
    }
}

impl Protocol {
    pub(super) fn arrive(&self, core: &mut Core, index: usize, token: Token, request: Request) {
        let current = is_current(core, token);
        let asking = core.clients[usize::from(token.client)].phase == Phase::Asking;
        let node = &mut core.nodes[index];
        let key = node.key;
        let free = key.is_none();
        let own = node.has(token);
        match request {
            Request::Set => {
                let link = node.link(token);
                link.grant = false;
                link.granted |= free && current && asking;
                if free {
                    node.key = Some(Key { token, left: self.bounds.ttl });
                }
            }
            Request::Extend(round) => {
                let link = node.link(token);
                let ttl = std::mem::take(&mut link.legs[round].request);
                if let Some(key) = key.filter(|_| own || self.omits(Omission::CompareOnExtend)) {
                    link.legs[round].renewed |= current;
                    let shorten = self.omits(Omission::NeverShorten);
                    let left = if shorten { ttl } else { ttl.max(key.left) };
                    node.key = Some(Key { left, ..key });
                } else if free {
                    link.legs[round].missing |= current;
                }
            }
            Request::Heal => {
                let left = std::mem::take(&mut node.link(token).heal);
                if free || self.omits(Omission::HealOnlyAbsent) {
                    node.key = Some(Key { token, left });
                }
            }
            Request::Delete => {
                node.link(token).delete = false;
                node.key = key.filter(|_| !own);
            }
            Request::BlindDelete => {
                node.link(token).blind_delete = false;
                node.key = None;
            }
        }
    }

    /// No SET is sent to a node that sits out, and a SET in flight goes with its connection. All
    /// else may be sent again on the next connection.
    pub(super) fn restart(&self, core: &mut Core, index: usize) {
        core.restarts -= 1;
        let node = &mut core.nodes[index];
        node.key = None;
        node.sits_out = self.sits_out();
        node.links.as_flattened_mut().iter_mut().for_each(|link| {
            (link.grant, link.unsent) = (false, false);
        });
    }

    /// A request that finds no key of its token, now or later, changes nothing, and no answer to
    /// it is waited for: without it there are fewer states and the same behaviours.
    pub(super) fn forget_what_is_without_effect(&self, core: &mut Core) {
        if self.omits(Omission::FreshToken) {
            return;
        }
        for token in tokens() {
            let current = is_current(core, token);
            for node in &mut core.nodes {
                let own = node.has(token);
                let link = node.link(token);
                if own || link.may_set() {
                    continue;
                }
                link.delete = false;
                if !current && !self.omits(Omission::CompareOnExtend) {
                    link.legs.iter_mut().for_each(|leg| leg.request = 0);
                }
            }
        }
    }
}
