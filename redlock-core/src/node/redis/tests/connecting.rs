//! Opening a connection: what is sent, and what is said when it fails.

use super::*;

/// `resp=3` and the like, for each connection but the helper's.
fn protocols(server: &mut Server) -> Vec<String> {
    let clients = server.text("CLIENT LIST");
    let mut protocols: Vec<_> = clients
        .lines()
        // The connection that asks is the helper's own.
        .filter(|line| !line.contains("cmd=client|list"))
        .filter_map(|line| line.split(' ').find(|word| word.starts_with("resp=")))
        .map(str::to_owned)
        .collect();
    protocols.sort();
    protocols
}

#[tokio::test]
async fn only_what_is_needed_is_sent() {
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~* +@all"));
    let login = format!("locks:{CANARY}@");
    let pushed = [
        "client|caching 1",
        "client|reply 1",
        "client|tracking 1",
        "eval 1",
        "evalsha 1",
        "hello 1",
        "ping 1",
    ];
    let with_database = &[&pushed[..], &["select 1"]].concat()[..];
    for (login, rest, commands) in [
        ("", "", &pushed[..]),
        ("", "?protocol=resp2", &["eval 1", "evalsha 1", "ping 1"]),
        (&login, "/1", with_database),
        (&login, "/1?protocol=resp3", with_database),
        (&login, "/1?protocol=resp2", &["auth 1", "eval 1", "evalsha 1", "ping 1", "select 1"]),
    ] {
        server.admin("CONFIG RESETSTAT");
        let node = connected(&server.url(login, rest)).await;
        assert_eq!(server.commands_run(), commands, "{login}{rest}");
        drop(node);
    }
}

#[tokio::test]
async fn resp3_unless_the_url_says_otherwise() {
    let mut server = Server::start();
    for (query, protocol) in
        [("", "resp=3"), ("?protocol=resp2", "resp=2"), ("?protocol=resp3", "resp=3")]
    {
        let node = connected(&server.url("", query)).await;
        assert_eq!(protocols(&mut server), [protocol], "{query}");
        drop(node);
        server.wait_for("the socket to be closed", |server| protocols(server).is_empty()).await;
    }
}

/// It may be another one by then, or a newer version: it would push to a connection that has said `HELLO`.
#[tokio::test]
async fn a_server_without_hello_is_asked_for_it_on_each_connection() {
    let mut server = Server::start_with(&["--rename-command", "HELLO", ""]);
    let spec = spec(&server.url("", "")).unwrap();
    server.admin("CONFIG RESETSTAT");
    for _ in 0..3 {
        let (node, _) =
            within(spec.connector.connect(&Arc::default())).await.unwrap_or_else(|e| panic!("{e}"));
        let mut node = driven(node);
        assert_eq!(act(&mut *node, &claim("a", CANARY), GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &claim("a", CANARY), RELEASE).await, Ok(Reply::Done));
    }
    // Two native commands were tried on each connection as well.
    let stats = server.text("INFO errorstats");
    assert!(stats.contains("errorstat_ERR:count=9\r\n"), "{stats}");
}

/// A lock could be taken on this server, and not released.
#[tokio::test]
async fn a_server_without_scripts_is_refused_before_it_has_a_lock() {
    let mut renamed = Server::start_with(&["--rename-command", "EVALSHA", ""]);
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~* +@all -evalsha"));
    for query in ["", "?protocol=resp2"] {
        let reason = refusal(&renamed.url("", query)).await;
        assert!(reason.to_lowercase().contains("unknown command 'evalsha'"), "{reason}");
        let reason = refusal(&server.url(&format!("locks:{CANARY}@"), query)).await;
        assert!(reason.starts_with("NOPERM") && reason.contains("evalsha"), "{reason}");
    }
    let redlock = crate::Redlock::builder().nodes([renamed.url("", "")]);
    let redlock = redlock.connect_timeout(LIMIT).build().unwrap();
    let error = within(redlock.try_lock("r").into_future()).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("evalsha"), "{error}");
    assert_eq!(renamed.number("DBSIZE"), 0);
}

/// Waiters ask such a server from time to time. Without either, no change of a key is pushed.
#[tokio::test]
async fn a_user_without_a_permission_for_tracking_is_not_told_of_changes() {
    let mut server = Server::start();
    for (rules, tells) in [("", true), ("-client|tracking", false), ("-client|caching", false)] {
        server.admin(&format!("ACL SETUSER locks reset on >{CANARY} ~* +@all {rules}"));
        let node = connected(&server.url(&format!("locks:{CANARY}@"), "")).await;
        assert_eq!(node.has_pushes(), tells, "{rules:?}");
    }
}

/// As after a failover: the server is asked for native commands all the same.
#[tokio::test]
async fn a_replica_that_is_made_a_master_is_asked_for_native_commands() {
    let mut server = Server::start();
    let spec = spec(&server.url("", "")).unwrap();
    server.admin("REPLICAOF 127.0.0.1 1");
    assert!(within(spec.connector.connect(&Arc::default())).await.is_err());
    server.admin("REPLICAOF NO ONE");
    server.admin("CONFIG RESETSTAT");
    assert!(within(spec.connector.connect(&Arc::default())).await.is_ok());
    // It may know one of the two by now.
    let (errors, run) = (server.text("INFO errorstats"), server.text("INFO commandstats"));
    let unknown = errors.contains("errorstat_ERR:count=2\r\n");
    assert!(unknown || run.contains("cmdstat_del"), "{errors}{run}");
}

/// Some proxies hang up at a native command, and so does a server that ends just then.
#[tokio::test]
async fn a_server_that_has_hung_up_once_is_asked_for_native_commands_again() {
    const REFUSED: &str = "-NOPERM no info\r\n-NOPERM no info\r\n-NOPERM no info\r\n\
                           -NOPERM no scripts\r\n-NOPERM no scripts\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for replies in [
            vec!["+PONG\r\n"],
            vec!["+PONG\r\n", REFUSED],
            vec!["+PONG\r\n", REFUSED, ":0\r\n-ERR unknown command\r\n"],
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 64 * 1024];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(replies[0].as_bytes()).await.unwrap();
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(replies[1..].concat().as_bytes()).await.unwrap();
            if replies.len() > 1 {
                // Until the client leaves.
                while stream.read(&mut buffer).await.unwrap_or(0) > 0 {}
            }
        }
    });
    let spec = spec(&format!("redis://127.0.0.1:{port}?protocol=resp2")).unwrap();
    assert!(within(spec.connector.connect(&Arc::default())).await.is_err(), "it hung up");
    assert!(within(spec.connector.connect(&Arc::default())).await.is_err(), "no scripts");
    assert!(within(spec.connector.connect(&Arc::default())).await.is_ok(), "a native delete");
}

/// A busy server is asked again.
#[tokio::test]
async fn a_server_that_cannot_run_scripts_just_now_is_connected() {
    const BUSY: &str = "-NOPERM no info\r\n-NOPERM no info\r\n-NOPERM no info\r\n\
                        -BUSY Redis is busy running a script.\r\n\
                        -BUSY Redis is busy running a script.\r\n\
                        -ERR unknown command\r\n-ERR unknown command\r\n";
    let port = fake(&["+PONG\r\n", BUSY, "+OK\r\n"]).await;
    let mut node = connected(&format!("redis://127.0.0.1:{port}?protocol=resp2")).await;
    assert_eq!(act(&mut *node, &claim("a", CANARY), GRANT).await, Ok(Reply::Done));
}

#[tokio::test]
async fn a_server_without_hello_does_not_echo_the_password() {
    let mut server = Server::start_with(&["--rename-command", "HELLO", ""]);
    server.admin(&format!("CONFIG SET requirepass {CANARY}"));
    let login = format!(":{CANARY}@");
    connected(&server.url(&login, "")).await;
    let reason = refusal(&server.url(&login, "?protocol=resp3")).await;
    assert!(reason.starts_with("ERR unknown command 'HELLO'"), "{reason}");
}

#[tokio::test]
async fn a_proxy_that_hangs_up_at_hello_is_spoken_to_without() {
    // The first connection reads HELLO and is closed; the second reads PING.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            if buffer[..read].windows(4).any(|word| word == b"PING") {
                for reply in ["+PONG\r\n", TELLS_NOTHING] {
                    let _ = stream.write_all(reply.as_bytes()).await;
                    let _ = stream.read(&mut buffer).await;
                }
            }
        }
    });
    connected(&format!("redis://127.0.0.1:{port}")).await;
}

#[tokio::test]
async fn a_unix_socket_is_as_good_as_tcp() {
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~* +@all"));
    let path = server.socket();
    for scheme in ["unix", "redis+unix"] {
        let url = format!("{scheme}://{}?db=2&user=locks&pass={CANARY}", path.display());
        let node = spec(&url).unwrap();
        assert_eq!(&*node.name, path.to_str().unwrap());
        let mut node = connected(&url).await;
        let claim = claim("redlock:a", CANARY);
        assert_eq!(act(&mut *node, &claim, GRANT).await, Ok(Reply::Done));
        assert!(server.text("INFO keyspace").contains("db2:keys=1"));
        assert_eq!(act(&mut *node, &claim, RELEASE).await, Ok(Reply::Done));
    }
    let url = format!("unix:///nowhere/redis.sock?pass={CANARY}");
    assert!(refusal(&url).await.contains("No such file"));
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_told_in_the_servers_words() {
    let mut server = Server::start();
    server.admin("CONFIG SET requirepass right");
    for query in ["", "?protocol=resp2", "?protocol=resp3"] {
        let reason = refusal(&server.url("", query)).await;
        assert!(reason.starts_with("NOAUTH"), "{reason}");
        assert!(reason.contains("redis://user:password@"), "{reason}");
        for login in [format!(":{CANARY}@"), format!("nobody:{CANARY}@")] {
            let reason = refusal(&server.url(&login, query)).await;
            assert!(reason.starts_with("WRONGPASS"), "{reason}");
        }
        connected(&server.url(":right@", query)).await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told() {
    let server = Server::start();
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let reason = refusal(&server.url("", &format!("/99{query}"))).await;
        assert!(reason.contains("DB index is out of range"), "{reason}");
    }
}

#[tokio::test]
async fn a_server_with_too_many_clients_says_so() {
    let mut server = Server::start();
    // The one is the helper's.
    server.admin("CONFIG SET maxclients 1");
    for query in ["", "?protocol=resp2", "?protocol=resp3"] {
        let reason = refusal(&server.url("", query)).await;
        assert!(reason.starts_with("ERR max number of clients reached"), "{query}: {reason}");
        assert!(!reason.contains("rediss://"), "{query}: {reason}");
    }
}

#[tokio::test]
async fn a_server_that_loads_is_down_until_it_has() {
    let port = fake(&["-LOADING Redis is loading the dataset in memory\r\n"]).await;
    let reason = refusal(&format!("redis://127.0.0.1:{port}?protocol=resp2")).await;
    assert_eq!(reason, "LOADING Redis is loading the dataset in memory");
}

#[tokio::test]
async fn errors_of_the_operating_system_are_passed_on() {
    let mut server = Server::start();
    server.kill();
    let reason = refusal(&server.url(&format!(":{CANARY}@"), "")).await;
    assert!(reason.contains("Connection refused"), "{reason}");

    let reason = refusal(&format!("redis://:{CANARY}@redis.invalid")).await;
    assert!(reason.starts_with("cannot resolve redis.invalid: "), "{reason}");
}

#[tokio::test]
async fn a_server_that_is_no_redis_is_reported_as_such() {
    let port = fake(&["HTTP/1.1 400 Bad Request\r\n\r\n"]).await;
    for query in ["", "?protocol=resp2"] {
        let reason = refusal(&format!("redis://127.0.0.1:{port}{query}")).await;
        assert_eq!(reason, "the server does not speak the Redis protocol");
    }
    let port = fake(&[]).await;
    for query in ["", "?protocol=resp2"] {
        let reason = refusal(&format!("redis://127.0.0.1:{port}{query}")).await;
        // The order decides which: our bytes, or the server's close.
        let endings = ["closed the connection", "reset by peer", "Broken pipe"];
        assert!(endings.iter().any(|close_reason| reason.contains(close_reason)), "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_by_dropping() {
    let mut server = Server::start();
    let url = server.url("", "");
    server.pause();
    let spec = spec(&url).unwrap();
    let mut connecting = spec.connector.connect(&Arc::default());
    assert!((&mut connecting).now_or_never().is_none());
    drop(connecting);
    server.resume();
    server.wait_for("the socket to be closed", |server| protocols(server).is_empty()).await;
}

#[tokio::test]
async fn a_server_tells_its_run_id_and_whether_it_may_drop_locks() {
    let mut server = Server::start();
    server.admin("CONFIG SET maxmemory-policy volatile-lru");
    let told = server.text("INFO server");
    let run_id = told.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    server.admin(&format!("ACL SETUSER dumb on >{CANARY} ~* +@all -info"));
    let identity = async |login: &str, query: &str| {
        let spec = spec(&server.url(login, query)).unwrap();
        within(spec.connector.connect(&Arc::default())).await.map(|(_, identity)| identity).unwrap()
    };
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let identity = identity("", query).await;
        assert_eq!(identity.run_id.as_deref(), Some(run_id.trim()));
        assert_eq!(identity.evicts.as_deref(), Some("volatile-lru"));
        assert!(identity.uptime.is_some_and(|uptime| uptime < LIMIT));
    }
    let login = format!("dumb:{CANARY}@");
    assert_eq!(identity(&login, "").await, crate::node::Identity::default());
}

#[tokio::test]
async fn a_replica_is_refused() {
    let mut server = Server::start();
    server.admin("REPLICAOF 127.0.0.1 1");
    let url = server.url("", "");
    let reason = refusal(&url).await;
    assert!(reason.contains("it is a replica"), "{reason}");
    assert_eq!(connect(&url).await.err().map(|error| error.cause), Some(Cause::Replica));
}
