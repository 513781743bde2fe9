//! A state in a few words: what is hashed, compared and sorted, many millions of times.
//!
//! Every field is named and none is left out by `..`: a field that is not packed would make one of
//! states that are different.

use super::state::{ATTEMPTS, CLIENTS, Client, Core, Key, Leg, Link, NODES, Node, Round};

/// The words of one node: what it is like, and what is on its way.
const NODE: usize = 1 + CLIENTS * ATTEMPTS;
/// The words of a state.
const STATE: usize = 1 + CLIENTS + NODES * NODE;

/// A state in words.
pub(super) type Packed = [u32; STATE];

/// A small number among others: in four bits.
fn nibble(number: u8, place: u32) -> u32 {
    debug_assert!(number < 16, "no ttl and no count is that large");
    (number as u32) << place
}

fn leg(Leg { request, renewed, missing, counted, gap }: &Leg) -> u32 {
    nibble(*request, 0)
        | (*renewed as u32) << 4
        | (*missing as u32) << 5
        | (*counted as u32) << 6
        | (*gap as u32) << 7
}

fn link(link: &Link) -> u32 {
    let Link {
        unsent,
        grant,
        granted,
        counted,
        asked,
        delete,
        blind_delete,
        heal,
        legs: [first, second],
    } = link;
    leg(first)
        | leg(second) << 8
        | nibble(*heal, 16)
        | (*grant as u32) << 20
        | (*granted as u32) << 21
        | (*counted as u32) << 22
        | (*asked as u32) << 23
        | (*delete as u32) << 24
        | (*blind_delete as u32) << 25
        | (*unsent as u32) << 26
}

pub(super) fn node(node: &Node) -> [u32; NODE] {
    let Node { key, sits_out, links } = node;
    let mut words = [0; NODE];
    words[0] = nibble(*sits_out, 0);
    if let Some(Key { token, left }) = key {
        words[0] |=
            nibble(token.client, 4) | nibble(token.attempt, 8) | nibble(*left, 12) | 1 << 16;
    }
    for (word, each) in words[1..].iter_mut().zip(links.as_flattened()) {
        *word = link(each);
    }
    words
}

fn round(Round { left, confirmed }: &Round) -> u32 {
    nibble(*left, 0) | (*confirmed as u32) << 4
}

fn client(client: &Client) -> u32 {
    let Client {
        phase,
        attempt,
        tries,
        left,
        begun,
        rounds: [first, second],
        broken,
        lag,
        waiting,
        handed_over,
    } = client;
    round(first)
        | round(second) << 5
        | (*broken as u32) << 10
        | (*phase as u32) << 11
        | (*attempt as u32) << 13
        | nibble(*tries, 14)
        | nibble(*left, 18)
        | (*begun as u32) << 22
        | nibble(*lag, 24)
        | (*waiting as u32) << 28
        | (*handed_over as u32) << 31
}

/// The state whose nodes have these words.
pub(super) fn state(core: &Core, packed_nodes: [[u32; NODE]; NODES]) -> Packed {
    // What the nodes are like is in their words.
    let Core { nodes: _, clients, restarts, stops, jumps, losses } = core;
    let mut words = [0; STATE];
    words[0] = nibble(*restarts, 0) | nibble(*stops, 4) | nibble(*jumps, 8) | nibble(*losses, 12);
    for (word, each) in words[1..].iter_mut().zip(clients) {
        *word = client(each);
    }
    words[1 + CLIENTS..].copy_from_slice(packed_nodes.as_flattened());
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::state::{Phase, Token};

    type Change = Box<dyn Fn(&mut Core)>;

    #[test]
    fn every_field_has_bits_of_its_own() {
        let mut changes: Vec<Change> = vec![
            Box::new(|_| {}),
            Box::new(|core| core.restarts = 15),
            Box::new(|core| core.stops = 15),
            Box::new(|core| core.jumps = 15),
            Box::new(|core| core.losses = 15),
        ];
        for place in 0..CLIENTS {
            let set: [fn(&mut Client); 13] = [
                |client| client.phase = Phase::Asking,
                |client| client.phase = Phase::Holding,
                |client| client.attempt = 1,
                |client| client.tries = 15,
                |client| client.left = 15,
                |client| client.begun = 3,
                |client| client.waiting = 7,
                |client| client.handed_over = true,
                |client| client.broken = true,
                |client| client.lag = 15,
                |client| client.rounds[1].left = 15,
                |client| client.rounds[0].left = 15,
                |client| client.rounds[1].confirmed = true,
            ];
            let change = |set: fn(&mut Client)| -> Change {
                Box::new(move |core| set(&mut core.clients[place]))
            };
            changes.extend(set.map(change));
        }
        for place in 0..NODES {
            let key = |client, attempt, left| Some(Key { token: Token { client, attempt }, left });
            let keys = [key(0, 0, 0), key(1, 0, 0), key(0, 1, 0), key(0, 0, 15)];
            let change =
                |key: Option<Key>| -> Change { Box::new(move |core| core.nodes[place].key = key) };
            changes.extend(keys.map(change));
            let set: [fn(&mut Node); 14] = [
                |node| node.sits_out = 15,
                |node| node.links[2][1].unsent = true,
                |node| node.links[2][1].grant = true,
                |node| node.links[2][1].granted = true,
                |node| node.links[2][1].counted = true,
                |node| node.links[2][1].heal = 15,
                |node| node.links[2][1].delete = true,
                |node| node.links[2][1].blind_delete = true,
                |node| node.links[2][1].asked = true,
                |node| node.links[0][0].legs[0].request = 15,
                |node| node.links[0][0].legs[1].request = 15,
                |node| node.links[0][0].legs[1].renewed = true,
                |node| node.links[0][0].legs[1].missing = true,
                |node| node.links[0][0].legs[1].gap = true,
            ];
            let change = |set: fn(&mut Node)| -> Change {
                Box::new(move |core| set(&mut core.nodes[place]))
            };
            changes.extend(set.map(change));
        }
        let packed: BTreeSet<Packed> = changes
            .iter()
            .map(|change| {
                let mut core = Core::default();
                change(&mut core);
                state(&core, core.nodes.map(|each| node(&each)))
            })
            .collect();
        assert_eq!(packed.len(), changes.len());
    }
}
