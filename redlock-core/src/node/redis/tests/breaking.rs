//! Connections that break, at work and at rest.

use std::future::IntoFuture;

use super::*;

const QUERIES: [&str; 3] = ["", "?protocol=resp2", "?protocol=resp3"];

#[tokio::test]
async fn a_killed_server_is_noticed_at_rest() {
    for query in QUERIES {
        let mut server = Server::start();
        let mut node = connected(&server.url("", query)).await;
        let closed = node.closed();
        server.kill();
        let error = within(closed).await;
        assert_eq!(error.kind, NodeErrorKind::Disconnected);
        assert_eq!(&*error.node, format!("127.0.0.1:{}", server.port));
        assert_eq!(&*error.reason, "the server closed the connection");

        // From then on, all its users know.
        assert_eq!(within(node.closed()).await, error);
        let claim = claim("a", CANARY);
        assert_eq!(act(&mut *node, &claim, GRANT).await, Err(error.clone()));
        let commands = [(&claim, GRANT), (&claim, RELEASE)];
        assert_eq!(batch(&mut *node, &commands).await, [Err(error.clone()), Err(error.clone())]);
        assert_eq!(within(node.ping()).await, Err(error));
    }
}

#[tokio::test]
async fn a_server_killed_at_work_answers_nothing_for_everything() {
    for query in QUERIES {
        let mut server = Server::start();
        let mut node = connected(&server.url("", query)).await;
        server.pause();
        let claim = claim("a", CANARY);
        let one = node.sender().send(vec![command(&(&claim, GRANT))]);
        let two = node.sender().send(vec![command(&(&claim, GRANT)), command(&(&claim, RELEASE))]);
        let ping = node.ping();
        let ((one, two, ping), ()) = within(async {
            tokio::join!(async { tokio::join!(one, two, ping) }, async {
                server.kill();
            })
        })
        .await;
        assert_eq!((one.len(), two.len()), (1, 2));
        let errors = one.into_iter().chain(two).map(Result::unwrap_err).chain(ping.err());
        let errors: Vec<_> = errors.collect();
        assert_eq!(errors.len(), 4);
        for error in errors {
            assert_eq!(error.kind, NodeErrorKind::Disconnected, "{error}");
            assert!(error.may_have_run);
            discreet(&error);
        }
    }
}

#[tokio::test]
async fn a_client_that_is_killed_by_the_server_notices() {
    let mut server = Server::start();
    for query in QUERIES {
        let mut node = connected(&server.url("", query)).await;
        server.admin("CLIENT KILL TYPE normal SKIPME yes");
        assert_eq!(&*within(node.closed()).await.reason, "the server closed the connection");
    }
}

#[tokio::test]
async fn garbage_breaks_the_connection_for_every_caller() {
    let port = fake(&["+PONG\r\n", TELLS_NOTHING, "garbage\r\n"]).await;
    for commands in 1..3 {
        let mut node = connected(&format!("redis://127.0.0.1:{port}?protocol=resp2")).await;
        let claim = claim("a", CANARY);
        let commands = vec![(&claim, GRANT); commands];
        for answer in batch(&mut *node, &commands).await {
            let error = answer.unwrap_err();
            assert_eq!(error.kind, NodeErrorKind::Disconnected);
            assert_eq!(&*error.reason, "the server does not speak the Redis protocol");
        }
        within(node.closed()).await;
    }
}

#[tokio::test]
async fn a_set_that_is_not_answered_by_redis_may_have_run() {
    const REPLIES: &str = ":1\r\n-upstream failure\r\n-OOM command not allowed\r\n";
    let port = fake(&["+PONG\r\n", TELLS_NOTHING, REPLIES]).await;
    let mut node = connected(&format!("redis://127.0.0.1:{port}?protocol=resp2")).await;
    let claim = claim("a", CANARY);
    let answers = batch(&mut *node, &[(&claim, GRANT), (&claim, GRANT), (&claim, GRANT)]).await;
    let errors: Vec<_> = answers.into_iter().map(Result::unwrap_err).collect();
    assert!(errors.iter().all(|error| error.kind == NodeErrorKind::Server));
    assert_eq!(
        errors.iter().map(|error| error.may_have_run).collect::<Vec<_>>(),
        [true, true, false]
    );
}

#[tokio::test]
async fn a_connection_that_breaks_between_a_script_and_its_source_has_no_answer() {
    const REPLIES: &str = "+OK\r\n-NOSCRIPT No matching script.\r\n";
    let port = fake(&["+PONG\r\n", TELLS_NOTHING, ":1\r\n", REPLIES]).await;
    let mut node = connected(&format!("redis://127.0.0.1:{port}?protocol=resp2")).await;
    let claim = claim("a", CANARY);
    // The first call has the source.
    assert_eq!(act(&mut *node, &claim, RELEASE).await, Ok(Reply::Done));
    let answers = batch(&mut *node, &[(&claim, GRANT), (&claim, RELEASE)]).await;
    assert_eq!(answers[0], Ok(Reply::Done));
    assert_eq!(answers[1].as_ref().unwrap_err().kind, NodeErrorKind::Disconnected);
}

#[tokio::test]
async fn dropping_a_connection_ends_what_is_under_way() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    server.pause();
    let claim = claim("a", CANARY);
    let mut sending = node.sender().send(vec![command(&(&claim, GRANT))]);
    assert!((&mut sending).now_or_never().is_none());
    let closed = node.closed();
    drop(node);
    let error = within(closed).await;
    assert_eq!(&*error.reason, "this client closed the connection");
    assert_eq!(within(sending).await, [Err(error)]);
}

#[test]
fn a_runtime_that_ends_takes_the_connection_with_it() {
    let server = Server::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let mut node = first.block_on(connected(&server.url("", "")));
    drop(first);
    runtime().block_on(async {
        let error = within(node.closed()).await;
        assert_eq!(error.kind, NodeErrorKind::Disconnected);
        assert_eq!(act(&mut *node, &claim("a", CANARY), GRANT).await, Err(error));
    });
}

#[tokio::test]
async fn a_ping_tells_alive_from_not() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    within(node.ping()).await.unwrap();
    server.admin("ACL SETUSER default -ping");
    let error = within(node.ping()).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server);
    assert!(error.reason.starts_with("NOPERM"), "{error}");
    server.kill();
    assert_eq!(within(node.ping()).await.unwrap_err().kind, NodeErrorKind::Disconnected);
}

#[tokio::test]
async fn a_server_that_hangs_up_on_every_client_is_asked_again_with_pauses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}?protocol=resp2", listener.local_addr().unwrap());
    let redlock = crate::Redlock::builder().nodes([url]).connect_timeout(LIMIT).build().unwrap();
    let begun = std::time::Instant::now();
    redlock.try_lock("r").into_future().now_or_never();
    for _ in 0..6 {
        let (mut stream, _) = within(listener.accept()).await.unwrap();
        for reply in ["+PONG\r\n", TELLS_NOTHING] {
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    }
    // 20, 40, 80, 160 and 320 ms lie between six.
    assert!(begun.elapsed() >= Duration::from_millis(620), "{:?}", begun.elapsed());
}

/// Its runtime may go on. What it would send then comes behind the deletes on the next connection.
#[test]
fn a_connection_that_was_taken_over_is_closed_while_its_runtime_stands_still() {
    let mut server = Server::start();
    let redlock = crate::Redlock::builder().nodes([server.url("", "")]).build().unwrap();
    let [first, second] = [(); 2]
        .map(|()| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let lock = async || drop(within(redlock.lock("r").into_future()).await.unwrap());
    first.block_on(lock());
    second.block_on(async {
        lock().await;
        let connections = |server: &mut Server| {
            let clients = server.text("CLIENT LIST");
            clients.lines().filter(|line| !line.contains("cmd=client|list")).count()
        };
        server.wait_for("the first connection is closed", |it| connections(it) == 1).await;
    });
    // It finds out that it has been taken over.
    first.block_on(lock());
}
