//! The master behind sentinels, over fake servers.

use super::*;
use crate::node::redis::sentinel_spec;

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
