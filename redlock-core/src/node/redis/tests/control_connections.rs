//! Questions to sentinels, and to members of a cluster for the others.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::{
    super::{
        checks::opener,
        control_connection::{ControlAccess, ControlConnection},
        url,
    },
    *,
};

/// A server that answers nothing before it may, and a connection to it.
struct Asked {
    connection: Arc<ControlConnection>,
    access: Arc<ControlAccess>,
    may_answer: Arc<Semaphore>,
    /// How many connections it has accepted.
    connections: Arc<AtomicUsize>,
    /// How often it was asked.
    heard: Arc<AtomicUsize>,
}

pub(super) fn connect_to(
    url: &str,
    limit: Duration,
) -> (Arc<ControlConnection>, Arc<ControlAccess>) {
    let endpoint = url::parse(url).unwrap();
    let (address, login) = (endpoint.address.clone(), endpoint.login.clone());
    let opener = opener(endpoint, NodeSettings::default(), &context(), limit);
    let opener = Arc::new(opener.unwrap());
    let access = ControlAccess { opener, credentials: None, login, login_at_need: false, limit };
    (Arc::new(ControlConnection::new(address)), Arc::new(access))
}

pub(super) fn role() -> Arc<redis::Pipeline> {
    let mut questions = redis::pipe();
    questions.cmd("ROLE");
    Arc::new(questions)
}

impl Asked {
    async fn new(limit: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let may_answer = Arc::new(Semaphore::new(0));
        let (connections, heard) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        tokio::spawn({
            let (may_answer, connections) = (Arc::clone(&may_answer), Arc::clone(&connections));
            let heard = Arc::clone(&heard);
            async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let (may_answer, heard) = (Arc::clone(&may_answer), Arc::clone(&heard));
                    tokio::spawn(async move {
                        let mut buffer = vec![0; 1024];
                        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                            heard.fetch_add(1, Ordering::Relaxed);
                            may_answer.acquire().await.unwrap().forget();
                            let _ = stream.write_all(b"+OK\r\n").await;
                        }
                    });
                }
            }
        });
        let (connection, access) = connect_to(&format!("redis://127.0.0.1:{port}"), limit);
        Self { connection, access, may_answer, connections, heard }
    }

    async fn ask(&self) -> Result<Vec<redis::Value>, String> {
        within(self.connection.ask(&role(), &self.access)).await
    }

    /// Asks, and gives the answer up once the server was asked for the `count`th time.
    async fn ask_and_leave(&self, count: usize) {
        let heard = async {
            while self.heard.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            answer = self.ask() => panic!("{answer:?}"),
            () = within(heard) => {}
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_question_that_is_given_up_costs_no_connection() {
    let asked = Asked::new(LIMIT).await;
    // The greeting is the first that the server is asked.
    asked.ask_and_leave(1).await;
    asked.may_answer.add_permits(1);
    asked.ask_and_leave(2).await;
    asked.may_answer.add_permits(2);
    asked.ask().await.unwrap();
    assert_eq!(asked.connections(), 1);
}

#[tokio::test]
async fn a_line_that_hangs_is_replaced() {
    let asked = Asked::new(Duration::from_millis(200)).await;
    assert_eq!(asked.ask().await.unwrap_err(), "no answer within 200ms");
    asked.may_answer.add_permits(1000);
    within(async { while asked.ask().await.is_err() {} }).await;
    assert!(asked.connections() > 1);
}

/// A task that polled a connection that has ended would stay for ever, one for each question.
#[tokio::test]
async fn a_server_that_greets_and_hangs_up_leaves_no_task_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"+OK\r\n").await;
        }
    });
    let (connection, access) = connect_to(&format!("redis://127.0.0.1:{port}"), LIMIT);
    let questions = role();
    for _ in 0..20 {
        within(connection.ask(&questions, &access)).await.unwrap_err();
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    within(async {
        while tasks() > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// As in tests that share a client: each has a runtime of its own. Nothing reads the connection of the one before.
#[test]
fn a_line_goes_on_on_the_next_runtime_at_the_first_question() {
    let server = Server::start();
    let (connection, access) = connect_to(&server.url("", ""), LIMIT);
    let questions = role();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut before = None;
    for ends in [true, true, false, true] {
        let here = runtime();
        here.block_on(within(connection.ask(&questions, &access))).unwrap();
        // Some of them only stand still.
        before = (!ends).then_some(here);
    }
    drop(before);
}

/// As behind a proxy that lets logins expire on open connections. What is asked next would be refused as well, for as
/// long as the connection lasts.
#[tokio::test]
async fn a_connection_whose_login_has_expired_is_replaced_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for expires in [true, false] {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = 0;
                while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {
                    asked += 1;
                    let refuses = expires && asked > 2;
                    let answer = if refuses { "-NOAUTH log in first\r\n" } else { "+PONG\r\n" };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    let (connection, access) = connect_to(&format!("redis://127.0.0.1:{port}"), LIMIT);
    for _ in 0..3 {
        let answers = within(connection.ask(&role(), &access)).await.unwrap();
        assert!(!matches!(answers[..], [redis::Value::ServerError(_)]), "{answers:?}");
    }
}

/// A server closes connections that are at rest for long.
#[tokio::test]
async fn a_line_that_was_closed_at_rest_is_replaced_at_once() {
    let mut server = Server::start();
    let (connection, access) = connect_to(&server.url("", ""), LIMIT);
    let questions = role();
    for _ in 0..3 {
        within(connection.ask(&questions, &access)).await.unwrap();
        server.admin("CLIENT KILL TYPE normal SKIPME yes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
