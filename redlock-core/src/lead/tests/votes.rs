//! How many votes a campaign counts, which tells operators that no candidate can lead.

use super::*;
use crate::node::NodeSpec;

/// Nothing has to be sent to such a node for it to count again.
#[tokio::test(start_paused = true)]
async fn a_campaign_counts_nodes_that_have_sat_out() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let campaign = Campaign::new(redlock.lead("r")).unwrap();
    drop(redlock.lock("warm").await.unwrap());
    sleep(SECOND).await;
    assert_eq!(campaign.votes(), 3);
    for node in &nodes[..2] {
        node.restart_empty();
        sleep(2 * SECOND).await;
        assert_eq!(campaign.votes(), 2, "it sits out");
        sleep(6 * SECOND).await;
        assert_eq!(campaign.votes(), 3, "it has sat out");
    }
    nodes[2].stop();
    sleep(SECOND).await;
    assert_eq!(campaign.votes(), 2, "it is down");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_counts_a_server_with_two_names_once() {
    let nodes = nodes(2);
    let alias = NodeSpec { name: "alias".into(), ..nodes[0].spec() };
    let redlock = Redlock::builder().over(vec![nodes[0].spec(), nodes[1].spec(), alias]);
    let campaign = Campaign::new(redlock.lead("r")).unwrap();
    drop(redlock.lock("warm").await.unwrap());
    sleep(SECOND).await;
    assert_eq!(campaign.votes(), 2);
    nodes[1].stop();
    sleep(SECOND).await;
    assert_eq!(campaign.votes(), 1, "no quorum");
}
