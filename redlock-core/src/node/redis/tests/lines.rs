//! Questions to sentinels, and to members of a cluster for the others.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    super::{
        checks::opener,
        line::{Access, Line},
        url,
    },
    *,
};

/// A server that answers a greeting with each connection, and questions from the connection with this number
/// on. Returns a line to it, and how many connections it has accepted.
async fn line(answers_from: usize, limit: Duration) -> (Arc<Line>, Arc<Access>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut buffer = vec![0; 1024];
                loop {
                    let read = stream.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    if number >= answers_from || buffer[..read].ends_with(b"PING\r\n") {
                        let _ = stream.write_all(b"+PONG\r\n").await;
                    }
                }
            });
        }
    });
    let endpoint = url::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let (address, login) = (endpoint.address.clone(), endpoint.login.clone());
    let opener = opener(endpoint, NodeSettings::default(), &context()).unwrap();
    let access =
        Access { opener: Arc::new(opener), credentials: None, login, login_at_need: false, limit };
    (Arc::new(Line::new(address)), Arc::new(access), connections)
}

fn question() -> Arc<redis::Pipeline> {
    let mut questions = redis::pipe();
    questions.cmd("ROLE");
    Arc::new(questions)
}

#[tokio::test]
async fn a_question_that_is_given_up_costs_no_connection() {
    let (line, access, connections) = line(0, LIMIT).await;
    for _ in 0..3 {
        // Before the connection is there, and then before the answer is.
        assert!(line.ask(&question(), &access).now_or_never().is_none());
        within(line.ask(&question(), &access)).await.unwrap();
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_line_that_hangs_is_replaced() {
    let (line, access, connections) = line(1, Duration::from_millis(200)).await;
    let error = within(line.ask(&question(), &access)).await.unwrap_err();
    assert_eq!(error, "no answer within 200ms");
    within(async { while line.ask(&question(), &access).await.is_err() {} }).await;
    assert!(connections.load(Ordering::Relaxed) > 1);
}
