//! SQLite, with a rollback journal and with a write-ahead log.

use std::{path::Path, thread, time::Duration};

use redlock_core::fence::sql;
use redlock_tests::LIMIT;
use rusqlite::{Connection, Result, TransactionBehavior};
use tempfile::TempDir;

use crate::{HOLDERS, Outcome, RESOURCE, tokens_of};

const JOURNALS: [&str; 2] = ["delete", "wal"];

/// A file of the test's own, with a counter in it.
struct Store(TempDir);

impl Store {
    fn new(journal: &str) -> Self {
        let store = Self(tempfile::tempdir().unwrap());
        let connection = store.connect();
        connection.pragma_update(None, "journal_mode", journal).unwrap();
        connection.execute_batch(sql::CREATE_TABLE).unwrap();
        // It is no mistake to run it once more.
        connection.execute_batch(sql::CREATE_TABLE).unwrap();
        let tables = "
            CREATE TABLE stock (pieces INTEGER);
            CREATE TABLE writes (place INTEGER PRIMARY KEY, token INTEGER);
            INSERT INTO stock VALUES (0)";
        connection.execute_batch(tables).unwrap();
        store
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn connect(&self) -> Connection {
        connect(self.path())
    }
}

fn connect(directory: &Path) -> Connection {
    let connection = Connection::open(directory.join("store.db")).unwrap();
    connection.busy_timeout(LIMIT).unwrap();
    // No test looks for what a power failure leaves.
    connection.pragma_update(None, "synchronous", "off").unwrap();
    connection
}

fn advance(connection: &Connection, token: i64) -> Result<bool> {
    let rows = connection.execute(sql::ADVANCE, (RESOURCE, token))?;
    assert!(rows <= 1, "{rows} rows");
    Ok(rows == 1)
}

fn read(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT pieces FROM stock", [], |row| row.get(0))
}

fn write(connection: &Connection, token: i64, pieces: i64) -> Result<()> {
    connection.execute("UPDATE stock SET pieces = ?1", [pieces])?;
    connection.execute("INSERT INTO writes (token) VALUES (?1)", [token])?;
    Ok(())
}

/// A transaction that begins in the ordinary way, which is with its first statement.
fn transaction<T>(
    connection: &mut Connection,
    body: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let value = body(&change)?;
    change.commit()?;
    Ok(value)
}

#[test]
fn a_smaller_token_is_refused_and_an_equal_one_accepted() {
    let store = Store::new("delete");
    let connection = store.connect();
    for (token, accepted) in [(33, true), (34, true), (34, true), (33, false), (40, true)] {
        assert_eq!(advance(&connection, token).unwrap(), accepted, "{token}");
    }
    let rows = connection.execute(sql::ADVANCE, ("stock:desk", 1)).unwrap();
    assert_eq!(rows, 1, "another resource has tokens of its own");
}

#[test]
fn an_older_holder_that_waits_for_a_later_one_is_refused() {
    for journal in JOURNALS {
        let store = Store::new(journal);
        let (older, mut later) = (store.connect(), store.connect());
        older.busy_timeout(Duration::ZERO).unwrap();
        let later_change = later.transaction().unwrap();
        assert!(advance(&later_change, 34).unwrap());
        let busy = advance(&older, 33).unwrap_err();
        assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{journal}");
        later_change.commit().unwrap();
        assert!(!advance(&older, 33).unwrap(), "{journal}: the same token, once more");
    }
}

#[test]
fn a_holder_that_rolls_back_leaves_no_token() {
    for journal in JOURNALS {
        let store = Store::new(journal);
        let mut connection = store.connect();
        let change = connection.transaction().unwrap();
        assert!(advance(&change, 34).unwrap());
        change.rollback().unwrap();
        assert!(advance(&connection, 33).unwrap(), "{journal}");
    }
}

/// Holders that overlap as no lock would let them: each of them reads in one transaction and writes
/// in this one or the next.
fn overlapping(store: &Store, transactions: usize) -> Outcome {
    thread::scope(|scope| {
        for holder in 0..HOLDERS {
            scope.spawn(move || {
                let mut connection = store.connect();
                for token in tokens_of(holder) {
                    let read_first = transaction(&mut connection, |change| {
                        if !advance(change, token)? {
                            return Ok(None);
                        }
                        let pieces = read(change)?;
                        if transactions == 1 {
                            write(change, token, pieces + 1)?;
                        }
                        Ok(Some(pieces))
                    })
                    .unwrap();
                    let Some(pieces) = read_first.filter(|_| transactions == 2) else { continue };
                    // Where a holder stands still, and others overtake it.
                    thread::yield_now();
                    transaction(&mut connection, |change| {
                        if advance(change, token)? {
                            write(change, token, pieces + 1)?;
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
    });
    let connection = store.connect();
    let mut writes = connection.prepare("SELECT token FROM writes ORDER BY place").unwrap();
    let accepted = writes.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    Outcome { accepted, counter: read(&connection).unwrap() }
}

#[test]
fn holders_that_overlap_lose_no_update() {
    for journal in JOURNALS {
        for transactions in [1, 2] {
            overlapping(&Store::new(journal), transactions).check();
        }
    }
}

/// Why the token is registered before the first read.
#[test]
fn a_holder_that_reads_first_loses_an_update() {
    let store = Store::new("delete");
    let (mut older, mut later) = (store.connect(), store.connect());
    let pieces = read(&later).unwrap();
    transaction(&mut older, |change| {
        assert!(advance(change, 33)?);
        let pieces = read(change)?;
        write(change, 33, pieces + 1)
    })
    .unwrap();
    transaction(&mut later, |change| {
        assert!(advance(change, 34)?);
        write(change, 34, pieces + 1)
    })
    .unwrap();
    assert_eq!(read(&later).unwrap(), 1, "two increments, and one of them is lost");
}
