//! The master behind sentinels, over fake servers.

use super::*;
use crate::node::redis::sentinel_spec;

/// The sentinels name a master that is replaced at once. The client that asked connects to it for `connect_timeout`,
/// asks again a second later, and is answered within half of `connect_timeout`.
#[test]
fn a_new_master_sits_out_until_no_client_goes_on_with_the_old_one() {
    let url = "redis://127.0.0.1:1".to_owned();
    let spec = sentinel_spec("m", &[url], NodeSettings::default(), &context()).unwrap();
    let connect_timeout = context().connect_timeout;
    let longest = connect_timeout + Duration::from_secs(1) + connect_timeout / 2;
    assert!(spec.connector.overlap() >= longest, "{:?}", spec.connector.overlap());
    let node = crate::Node::sentinel("m", ["redis://127.0.0.1:1"]);
    crate::Redlock::builder().nodes([node]).connect_timeout(Duration::MAX).build().unwrap();
}

#[tokio::test]
async fn commands_in_flight_are_told_that_there_is_another_master() {
    // It answers no command of a lock.
    let master = fake(&["+PONG\r\n", TELLS_NOTHING, "", ""]).await;
    let named = |port: u16| {
        let port = port.to_string();
        format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n*0\r\n", port.len())
    };
    let [first, second] = [named(master), named(1)].map(|it| &*it.leak());
    let sentinel = fake(vec!["+PONG\r\n", first, second, second].leak()).await;
    let url = format!("redis://127.0.0.1:{sentinel}?protocol=resp2");
    let spec = sentinel_spec("m", &[url], NodeSettings::default(), &context()).unwrap();
    let (mut connection, _) =
        within(spec.connector.connect(&Arc::default())).await.unwrap_or_else(|it| panic!("{it}"));
    let sent = connection.sender().send(vec![command(&(&claim("a", CANARY), GRANT))]);
    let (ended, answers) = within(futures_util::future::join(connection.closed(), sent)).await;
    let error = answers[0].as_ref().unwrap_err();
    for reason in [&ended.reason, &error.reason] {
        assert_eq!(&**reason, "the sentinels have named another master, 127.0.0.1:1");
    }
    assert!(error.may_have_run);
}

#[test]
fn credentials_of_sentinels_are_refused_where_there_are_none() {
    use crate::{Credentials, MemoryNode, Node, Redlock};
    let nodes = [
        Node::new("redis://a:1"),
        MemoryNode::new().into(),
        #[cfg(feature = "cluster")]
        Node::cluster(["redis://a:1"]),
    ];
    for node in nodes {
        let node = node.sentinel_credentials(|| async { Ok(Credentials::new("a", "b")) });
        let error = Redlock::builder().nodes([node]).build().unwrap_err();
        assert!(error.to_string().contains("sentinel_credentials"), "{error}");
    }
}
