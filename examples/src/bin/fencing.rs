//! A stock in SQLite, and a holder that stands still between its check and its write. Its lease runs
//! out, the next holder sells a piece, and the first one wakes up. The store refuses its write,
//! because it has seen a larger fencing token. With `--unchecked` the store does not look at tokens,
//! and an update is lost. With `REDLOCK_NODES=redis://..,redis://..` it runs on those.

use std::{
    env,
    error::Error,
    sync::{Mutex, PoisonError, mpsc::channel},
    thread,
    time::Duration,
};

use redlock_core::{FencingToken, LockGuard, MemoryNode, Redlock, fence::sql};
use rusqlite::Connection;
use tokio::runtime::Builder;

type Failure = Box<dyn Error + Send + Sync>;

const STOCK: &str = "stock:lamp";
const PIECES: i64 = 10;

/// How long the lock outlives a holder that stands still.
const TTL: Duration = Duration::from_millis(500);

/// The stock, in a database that all holders use.
struct Store {
    database: Mutex<Connection>,
    /// Whether it looks at tokens.
    checks: bool,
}

impl Store {
    fn new(checks: bool) -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(sql::CREATE_TABLE)?;
        database.execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)")?;
        database.execute("INSERT INTO stock VALUES (?1, ?2)", (STOCK, PIECES))?;
        Ok(Self { database: Mutex::new(database), checks })
    }

    /// Runs a transaction of the holder with this token; `None` when a later holder has been there.
    fn fenced<T>(
        &self,
        token: FencingToken,
        body: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let change = database.transaction()?;
        // The first statement, before anything is read.
        if self.checks && change.execute(sql::ADVANCE, (STOCK, i64::from(token)))? == 0 {
            return Ok(None);
        }
        let value = body(&change)?;
        change.commit()?;
        Ok(Some(value))
    }

    fn read(&self, token: FencingToken) -> rusqlite::Result<Option<i64>> {
        self.fenced(token, pieces)
    }

    /// False when it was refused.
    fn write(&self, token: FencingToken, left: i64) -> rusqlite::Result<bool> {
        let update = "UPDATE stock SET pieces = ?2 WHERE item = ?1";
        let written = self.fenced(token, |change| change.execute(update, (STOCK, left)))?;
        Ok(written.is_some())
    }
}

fn pieces(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT pieces FROM stock WHERE item = ?1", [STOCK], |row| row.get(0))
}

/// Takes the lock, with a token.
async fn take(locks: &Redlock) -> Result<(LockGuard, FencingToken), Failure> {
    let guard = locks.lock(STOCK).ttl(TTL).wait(Duration::from_secs(30)).fenced().await?;
    let token = guard.fencing_token().ok_or("a lock without a token")?;
    Ok((guard, token))
}

/// Sells a piece: reads, stands still for as long as `interrupted` does, and writes. Whether the
/// piece was sold.
async fn sell(
    name: &str,
    locks: Redlock,
    store: &Store,
    interrupted: impl FnOnce(),
) -> Result<bool, Failure> {
    let (guard, token, left) = loop {
        let (guard, token) = take(&locks).await?;
        // On a very busy machine the lease may be over by now.
        if let Some(left) = store.read(token)?
            && guard.is_valid()
        {
            break (guard, token, left);
        }
    };
    println!("{name} holds the lock with token {token} and reads {left}");
    interrupted();
    let sold = store.write(token, left - 1)?;
    let answer = if sold { "accepted" } else { "refused: a later holder has been there" };
    println!("{name} writes {} with token {token}: {answer}", left - 1);
    // Too late to know for the write; a holder that was overtaken has nothing to release.
    drop(guard);
    Ok(sold)
}

/// A seller in a thread of its own, with a client of its own: what stops the thread also stops the
/// renewal of its lock, as it does in a process that is paused.
fn seller(
    name: &str,
    nodes: &[MemoryNode],
    store: &Store,
    interrupted: impl FnOnce(),
) -> Result<bool, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = match env::var_os("REDLOCK_NODES") {
            Some(_) => redlock_examples::connect().await?,
            None => Redlock::builder().nodes(nodes).build()?,
        };
        sell(name, locks, store, interrupted).await
    })
}

fn main() -> Result<(), Failure> {
    let checks = !env::args().any(|argument| argument == "--unchecked");
    let store = Store::new(checks)?;
    let nodes = Redlock::in_memory(5).memory_nodes();
    let (told, stands_still) = channel();
    let (go, go_on) = channel::<()>();
    let stand_still = move || {
        println!("A has checked that its lock is valid, and stands still");
        // It fails when the other end is gone, and then there is nothing to wait for.
        let _ = told.send(());
        let _ = go_on.recv();
        println!("A goes on");
    };
    let sold = thread::scope(|scope| -> Result<usize, Failure> {
        let a = scope.spawn(|| seller("A", &nodes, &store, stand_still));
        let _ = stands_still.recv();
        // It waits for the lock until the lease of the first one has run out.
        let b = seller("B", &nodes, &store, || {});
        drop(go);
        let a = a.join().map_err(|_| "the first seller panicked")?;
        Ok(usize::from(a?) + usize::from(b?))
    })?;
    let database = store.database.lock().unwrap_or_else(PoisonError::into_inner);
    let left = pieces(&database)?;
    let gone = PIECES - left;
    println!("{sold} of {PIECES} sold, {left} in stock");
    match i64::try_from(sold)? - gone {
        0 => println!("no update is lost"),
        lost => println!("{lost} update lost: the stock says that {gone} was sold"),
    }
    Ok(())
}
