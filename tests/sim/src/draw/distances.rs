//! How far the clients are from the nodes: all of them equally far, or each at a distance of its own.

use super::{
    super::{plan::Distances, rng::Rng},
    pick,
};

/// More clients than any plan has.
const CLIENTS: usize = 48;

/// More nodes than any plan has.
const NODES: usize = 5;

/// How many schedules in a hundred have clients at different distances, by whether there is a crowd.
const UNEQUAL: [u64; 2] = [20, 40];

/// The distances of a plan, for more clients and nodes than it has. They have random numbers of their own, so
/// that a plan whose clients are all `same` far does not depend on them.
pub(super) fn draw(seed: u64, same: u64, crowd: bool) -> Distances {
    let mut rng = Rng::new(seed ^ 0xD1_57A2);
    if !rng.percent(UNEQUAL[usize::from(crowd)]) {
        return Distances { clients: vec![same; CLIENTS], nodes: vec![0; NODES] };
    }
    let far = pick(&mut rng, &[(1, 2), (1, 5), (1, 10), (3, 20)]);
    let places = [(3, 0), (2, 1), (1, far / 2), (2, far)];
    // One client that is far from all others finds none that is as slow as it is.
    let lone = rng.percent(40).then(|| rng.index(2));
    let mut clients: Vec<u64> = (0..CLIENTS)
        .map(|client| match lone {
            Some(lone) => {
                if client == lone {
                    far
                } else {
                    0
                }
            }
            None => pick(&mut rng, &places),
        })
        .collect();
    // The first two differ: no plan has fewer.
    if lone.is_none() {
        let [near, other] = if rng.percent(50) { [0, 1] } else { [1, 0] };
        (clients[near], clients[other]) = (0, far);
    }
    // The nodes are far from each other, too.
    let apart = rng.percent(30);
    let nodes = (0..NODES)
        .map(|_| if apart { pick(&mut rng, &[(2, 0), (1, 2), (1, far)]) } else { 0 })
        .collect();
    Distances { clients, nodes }
}
