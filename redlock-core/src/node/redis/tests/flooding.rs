//! Servers that send without an end before they are known (rule 18).

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};

use super::{
    super::{frame::MAX_GREETING, loan::TOO_MUCH},
    *,
};

/// What a server sends in all, which stands for a server that never ends.
const ENDLESS: usize = 16 << 20;

/// More than the system keeps of a stream over a Unix socket. Over TCP, that would be several MiB.
const IN_SOCKETS: usize = 1 << 20;

/// What a server sends: an answer to each question, and after the next question `start` and then `filler` again and
/// again.
#[derive(Debug, Clone, Copy)]
struct Talk {
    answers: &'static [&'static str],
    start: &'static str,
    filler: &'static str,
}

/// A server at a Unix socket.
struct Flood {
    url: String,
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    /// Connections that have ended.
    ended: Arc<Semaphore>,
    path: PathBuf,
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Flood {
    fn new(talk: Talk) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redlock-core-flood-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let (connections, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let ended = Arc::new(Semaphore::new(0));
        tokio::spawn({
            let (connections, sent) = (Arc::clone(&connections), Arc::clone(&sent));
            let ended = Arc::clone(&ended);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let (sent, ended) = (Arc::clone(&sent), Arc::clone(&ended));
                    tokio::spawn(async move {
                        serve(stream, talk, sent).await;
                        ended.add_permits(1);
                    });
                }
            }
        });
        let url = format!("unix://{}", path.display());
        Self { url, connections, sent, ended, path }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Waits until all connections have ended. What the server got rid of is what the client has read, and what the
    /// system keeps. A buffer doubles, so the last read may take as much as all before.
    async fn assert_sent_no_more_than(&self, most: usize) {
        let connections = u32::try_from(self.connections()).unwrap();
        within(self.ended.acquire_many(connections)).await.unwrap().forget();
        let sent = self.sent.load(Ordering::Relaxed);
        assert!(sent <= self.connections() * (2 * most + IN_SOCKETS), "{sent} bytes");
    }
}

async fn serve(mut stream: UnixStream, talk: Talk, sent: Arc<AtomicUsize>) {
    let mut buffer = vec![0; 64 * 1024];
    let start = talk.answers.iter().chain([&talk.start]);
    for text in start {
        if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
            return;
        }
        let _ = stream.write_all(text.as_bytes()).await;
    }
    let filler = talk.filler.repeat((64 << 10) / talk.filler.len());
    for _ in 0..ENDLESS / filler.len() {
        if stream.write_all(filler.as_bytes()).await.is_err() {
            return;
        }
        sent.fetch_add(filler.len(), Ordering::Relaxed);
    }
}

const HELLO: &str = "%1\r\n+server\r\n+redis\r\n";
const PONG: &str = "+PONG\r\n";

/// Ways to fill the memory of a client: how a reply starts, and how it goes on.
const FLOODS: [(&str, &str); 7] = [
    ("$536870912\r\n", "x"),
    ("*100\r\n$536870912\r\n", "x"),
    ("*1000000000\r\n", "$9\r\n123456789\r\n"),
    ("*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*999999999\r\n", "_\r\n"),
    ("+", "x"),
    (">999999999\r\n", "+x\r\n"),
    // Each of them is complete.
    ("", ">2\r\n+invalidate\r\n*0\r\n"),
];

#[tokio::test]
async fn a_server_that_sends_without_an_end_is_down_before_it_fills_the_memory() {
    let greetings: [(&str, &[&str]); 5] = [
        ("", &[]),
        ("", &[HELLO]),
        ("", &[HELLO, PONG]),
        ("?protocol=resp2", &[]),
        ("?protocol=resp2", &[PONG]),
    ];
    for (query, answers) in greetings {
        for (start, filler) in FLOODS {
            let talk = Talk { answers, start, filler };
            let flood = Flood::new(talk);
            let reason = refusal(&format!("{}{query}", flood.url)).await;
            assert_eq!(reason, TOO_MUCH, "{query} {talk:?}");
            assert_eq!(flood.connections(), 1, "it would send as much again: {query} {talk:?}");
            flood.assert_sent_no_more_than(MAX_GREETING).await;
        }
    }
}

/// Questions to sentinels, and to members of a cluster for the others.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod over_a_control_connection {
    use super::{
        super::{
            super::{frame::MAX_TOPOLOGY, transport::NOT_REDIS},
            control_connections::{connect_to, role},
        },
        *,
    };

    #[tokio::test]
    async fn an_answer_without_an_end_is_given_up_before_it_fills_the_memory() {
        let greetings: [&[&str]; 2] = [&[], &[PONG]];
        for answers in greetings {
            for (start, filler) in [FLOODS[1], FLOODS[2]] {
                let talk = Talk { answers, start, filler };
                let flood = Flood::new(talk);
                let (connection, access) = connect_to(&flood.url, LIMIT);
                let answer = within(connection.ask(&role(), &access)).await;
                assert_eq!(answer, Err(TOO_MUCH.to_owned()), "{talk:?}");
                flood.assert_sent_no_more_than(MAX_TOPOLOGY).await;
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_goes_on_when_it_has_answered_is_given_up() {
        let flood = Flood::new(Talk { answers: &[PONG], start: "+OK\r\n", filler: "+OK\r\n" });
        let (connection, access) = connect_to(&flood.url, LIMIT);
        within(connection.ask(&role(), &access)).await.unwrap();
        flood.assert_sent_no_more_than(MAX_TOPOLOGY).await;
    }

    /// As of a cluster whose slots are in no order.
    #[tokio::test]
    async fn each_answer_may_be_large() {
        let large = "x".repeat(MAX_TOPOLOGY - 100);
        let large = &*format!("${}\r\n{large}\r\n", large.len()).leak();
        let answers = vec![PONG, large, large, large].leak();
        let flood = Flood::new(Talk { answers, start: "", filler: "x" });
        let (connection, access) = connect_to(&flood.url, LIMIT);
        for _ in 0..3 {
            within(connection.ask(&role(), &access)).await.unwrap();
        }
        assert_eq!(flood.connections(), 1);
    }

    #[tokio::test]
    async fn an_answer_that_is_none_is_reported_as_such() {
        let flood = Flood::new(Talk { answers: &[PONG], start: "garbage\r\n", filler: "\r\n" });
        let (connection, access) = connect_to(&flood.url, LIMIT);
        assert_eq!(within(connection.ask(&role(), &access)).await, Err(NOT_REDIS.to_owned()));
    }
}
