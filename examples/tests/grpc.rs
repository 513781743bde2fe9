//! `tonic-orders` as its clients see it: a real process, real redis-servers, a real gRPC client.

#![allow(clippy::unwrap_used)] // a test fails by a panic

mod common;

use common::{Service, locked};
use http::uri::PathAndQuery;
use redlock_examples::orders::{PlaceReply, PlaceRequest};
use redlock_tests::{Nodes, wait_until, within};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

const TONIC_ORDERS: &str = env!("CARGO_BIN_EXE_tonic-orders");

async fn connect(service: &Service) -> Channel {
    Endpoint::new(service.url.clone()).unwrap().connect().await.unwrap()
}

/// The locks under which one order was placed.
async fn place(
    channel: &Channel,
    order: Option<&str>,
    customer: u64,
    milliseconds: u32,
) -> Result<Vec<String>, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let mut request = Request::new(PlaceRequest { customer, milliseconds });
    if let Some(order) = order {
        request.metadata_mut().insert("order-id", order.parse().unwrap());
    }
    let path = PathAndQuery::from_static("/orders.Orders/Place");
    let codec = ProstCodec::<PlaceRequest, PlaceReply>::default();
    let reply = client.unary(request, path, codec).await?;
    Ok(reply.into_inner().locks)
}

/// Returns once order 7 of customer 1 is refused as it should be. The service gives its nodes 50 ms
/// to answer, which a busy machine may take to be no quorum at times.
async fn refused(channel: &Channel, code: Code) {
    wait_until("it is refused as it should be", async || {
        place(channel, Some("7"), 1, 0).await.unwrap_err().code() == code
    })
    .await;
}

#[tokio::test]
async fn a_call_runs_under_its_two_locks_and_leaves_none() {
    let nodes = Nodes::start(3);
    let service = Service::start(TONIC_ORDERS, &nodes);
    let channel = connect(&service).await;
    wait_until("an order is placed", async || {
        place(&channel, Some("7"), 1, 0).await.is_ok_and(|locks| locks == ["order:7", "customer:1"])
    })
    .await;
    wait_until("the locks are gone", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn each_refusal_has_its_status() {
    let nodes = Nodes::start(3);
    let service = Service::start(TONIC_ORDERS, &nodes);
    let channel = connect(&service).await;
    for unusable in [None, Some("")] {
        let status = place(&channel, unusable, 1, 0).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }

    let other = nodes.client().build().unwrap();
    // The first by the layer, the second by the annotation.
    for resource in ["order:7", "customer:1"] {
        let guard = other.lock(resource).await.unwrap();
        refused(&channel, Code::Aborted).await;
        guard.release().await.unwrap();
    }

    nodes[..2].iter().for_each(|node| node.kill());
    refused(&channel, Code::Unavailable).await;
    let status = place(&channel, Some("7"), 1, 0).await.unwrap_err();
    let port = nodes[0].port().to_string();
    assert!(!status.message().contains(&port), "a client is told of a node: {status}");
}

#[tokio::test]
async fn at_the_end_calls_in_flight_are_answered_and_new_ones_refused() {
    let nodes = Nodes::start(3);
    let service = Service::start(TONIC_ORDERS, &nodes);
    let channel = connect(&service).await;
    let start = |order: &'static str, milliseconds: u32| {
        let channel = channel.clone();
        tokio::spawn(async move {
            place(&channel, Some(order), milliseconds.into(), milliseconds).await
        })
    };
    let (endless, finishing) = (start("1", 86_400_000), start("2", 3000));
    wait_until("both run", async || {
        locked(&nodes, "customer:86400000") && locked(&nodes, "customer:3000")
    })
    .await;
    service.terminate();
    wait_until("new calls are refused", async || {
        let placed = place(&channel, Some("7"), 1, 0).await;
        placed.is_err_and(|status| status.code() == Code::Unavailable)
    })
    .await;
    // Its lock was lost while it ran, so that it may have had effects.
    let status = within("the endless call", endless).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status}");
    let locks = within("the other call", finishing).await.unwrap().unwrap();
    assert_eq!(locks, ["order:2", "customer:3000"]);
    service.ends_well().await;
    assert!(nodes.are_empty(), "locks stayed behind");
}
