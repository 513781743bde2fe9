//! A server that is played: what clients send is translated on its way to a real server, which answers
//! everything, in order.

use std::{
    fmt,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::server::Server;

/// The words of a command.
pub type Words = Vec<Vec<u8>>;

/// The command that the real server gets for this one. `None` hangs up.
type Translate = dyn Fn(Words) -> Option<Words> + Send + Sync;

/// Plays another server in front of a real one.
pub struct Translator {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    translate: Box<Translate>,
    seen: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl Translator {
    /// In front of this server. `translate` gets each command, and returns the command that the server
    /// gets, or `None` to hang up.
    pub fn start(
        server: &Server,
        translate: impl Fn(Words) -> Option<Words> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server: server.port(),
            translate: Box::new(translate),
            seen: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if served.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let served = Arc::clone(&served);
                thread::spawn(move || served.serve(client));
            }
        });
        Self { port, shared }
    }

    /// Plays Redis 8.4, whose `DELEX` and `SET .. IFEQ` no package has: both are scripts of the real
    /// server. `scripts` says whether clients may run their own.
    pub fn redis_8_4(server: &Server, scripts: bool) -> Self {
        Self::start(server, move |words| Some(newer(words, scripts)))
    }

    /// The URL of the server that is played.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The names of the commands that clients have sent since this was last asked.
    pub fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl fmt::Debug for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translator").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) {
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", self.server)) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(mut replies), Ok(mut back)) = (server.try_clone(), client.try_clone()) else {
            return;
        };
        let answering = thread::spawn(move || {
            let _ = std::io::copy(&mut replies, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        'client: while let Ok(read @ 1..) = client.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..read]);
            let mut out = Vec::new();
            while let Some((words, length)) = command(&bytes) {
                bytes.drain(..length);
                let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                match (self.translate)(words) {
                    Some(words) => write(&words, &mut out),
                    None => break 'client,
                }
            }
            if server.write_all(&out).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        let _ = answering.join();
    }
}

/// The first command, and how many bytes it takes. Clients send arrays of strings alone.
fn command(bytes: &[u8]) -> Option<(Words, usize)> {
    let mut at = 0;
    let count = number(bytes, &mut at, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = number(bytes, &mut at, b'$')?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn number(bytes: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.iter().position(|it| *it == b'\r')?;
    assert_eq!(rest[0], kind, "not a command: {:?}", String::from_utf8_lossy(rest));
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}

fn write(words: &Words, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A command that is answered by this error.
pub fn error(text: &str) -> Words {
    let script = format!("return redis.error_reply([[{text}]])");
    [b"EVAL", script.as_bytes(), b"0"].map(<[u8]>::to_vec).into()
}

fn newer(words: Words, scripts: bool) -> Words {
    const DELEX: &[u8] = b"local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then \
                           return redis.call('DEL', KEYS[1]) end return 0";
    const SET: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[2] then \
                         return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) end return false";
    let script = |source: &[u8], words: &[&Vec<u8>]| {
        let mut all: Words = [b"EVAL", source, b"1"].map(<[u8]>::to_vec).into();
        all.extend(words.iter().map(|it| (*it).clone()));
        all
    };
    let name = words[0].to_ascii_uppercase();
    match (&name[..], &words[1..]) {
        (b"DELEX", [key, _, value]) => script(DELEX, &[key, value]),
        (b"SET", [key, value, how, old, _, time]) if how == b"IFEQ" => {
            script(SET, &[key, value, old, time])
        }
        (b"EVAL" | b"EVALSHA", _) if !scripts => {
            error("NOPERM User app has no permissions to run the command")
        }
        _ => words,
    }
}
