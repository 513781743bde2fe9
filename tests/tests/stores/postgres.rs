//! PostgreSQL, at every isolation level.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use redlock_core::fence::sql;
use redlock_tests::{Postgres, skipped, wait_until, within};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls, error::SqlState};

use crate::{HOLDERS, Outcome, RESOURCE, tokens_of};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// A database of the test's own, with a counter in it.
struct Database {
    server: Arc<Postgres>,
    name: String,
}

impl Database {
    /// `None`, and said so, where PostgreSQL cannot be run.
    async fn new(test: &str) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let server = match tokio::task::spawn_blocking(Postgres::shared).await.unwrap() {
            Ok(server) => server,
            Err(reason) => {
                skipped(test, &reason);
                return None;
            }
        };
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let server_wide = connect(&server, "postgres").await;
        // Another test that uses the template at the same moment would be refused.
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        server_wide.batch_execute(&create).await.unwrap();
        let database = Self { server, name };
        database.clear().await;
        Some(database)
    }

    async fn connect(&self) -> Arc<Client> {
        Arc::new(connect(&self.server, &self.name).await)
    }

    /// As if no holder had ever been there.
    async fn clear(&self) {
        let client = self.connect().await;
        client.batch_execute(sql::CREATE_TABLE).await.unwrap();
        let tables = "
            DELETE FROM redlock_fence;
            DROP TABLE IF EXISTS stock, writes;
            CREATE TABLE stock (pieces BIGINT);
            CREATE TABLE writes (place BIGSERIAL, token BIGINT);
            INSERT INTO stock VALUES (0)";
        client.batch_execute(tables).await.unwrap();
    }

    /// Returns once a statement in this database waits for another transaction.
    async fn waits(&self) {
        let client = self.connect().await;
        let waiting = "SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        wait_until("a statement waits", async || {
            !client.query(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
    }
}

async fn connect(server: &Postgres, database: &str) -> Client {
    let settings = server.settings(database);
    let connecting = tokio_postgres::connect(&settings, NoTls);
    let (client, connection) = within("connecting to PostgreSQL", connecting).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn begin(client: &Client, level: &str) {
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
}

async fn commit(client: &Client) -> Result<(), Error> {
    client.batch_execute("COMMIT").await
}

async fn advance(client: &Client, token: i64) -> Result<bool, Error> {
    let rows = client.execute(sql::ADVANCE, &[&RESOURCE, &token]).await?;
    assert!(rows <= 1, "{rows} rows");
    Ok(rows == 1)
}

async fn read(client: &Client) -> Result<i64, Error> {
    Ok(client.query_one("SELECT pieces FROM stock", &[]).await?.get(0))
}

async fn write(client: &Client, token: i64, pieces: i64) -> Result<(), Error> {
    client.execute("UPDATE stock SET pieces = $1", &[&pieces]).await?;
    client.execute("INSERT INTO writes (token) VALUES ($1)", &[&token]).await?;
    Ok(())
}

fn is_serialization_failure(error: &Error) -> bool {
    error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
}

/// Runs a transaction again for as long as it fails because of others at the same time.
async fn retried<T>(
    client: &Client,
    level: &str,
    mut body: impl AsyncFnMut(&Client) -> Result<T, Error>,
) -> T {
    loop {
        begin(client, level).await;
        let done = match body(client).await {
            Ok(value) => commit(client).await.map(|()| value),
            Err(error) => Err(error),
        };
        match done {
            Ok(value) => return value,
            Err(error) if is_serialization_failure(&error) => {
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_smaller_token_is_refused_and_an_equal_one_accepted() {
    let test = "a_smaller_token_is_refused_and_an_equal_one_accepted";
    let Some(database) = Database::new(test).await else { return };
    let client = database.connect().await;
    client.batch_execute(sql::CREATE_TABLE).await.unwrap();
    for (token, accepted) in [(33, true), (34, true), (34, true), (33, false), (40, true)] {
        assert_eq!(advance(&client, token).await.unwrap(), accepted, "{token}");
    }
    let rows = client.execute(sql::ADVANCE, &[&"stock:desk", &1_i64]).await.unwrap();
    assert_eq!(rows, 1, "another resource has tokens of its own");
}

/// A statement that waits for another transaction.
fn advance_later(client: &Arc<Client>, token: i64) -> JoinHandle<Result<bool, Error>> {
    let client = client.clone();
    tokio::spawn(async move { advance(&client, token).await })
}

#[tokio::test]
async fn an_older_holder_that_waits_for_a_later_one_is_refused() {
    let test = "an_older_holder_that_waits_for_a_later_one_is_refused";
    let Some(database) = Database::new(test).await else { return };
    // Whether the resource was seen before: its row exists and is locked, or is being made.
    for (level, seen) in LEVELS.into_iter().flat_map(|level| [(level, true), (level, false)]) {
        database.clear().await;
        let (older, later) = (database.connect().await, database.connect().await);
        if seen {
            assert!(advance(&older, 33).await.unwrap());
        }
        begin(&later, level).await;
        begin(&older, level).await;
        assert!(advance(&later, 34).await.unwrap());
        let waiting = advance_later(&older, 33);
        database.waits().await;
        commit(&later).await.unwrap();
        match within("the older holder", waiting).await.unwrap() {
            Ok(accepted) => {
                assert!(!accepted, "{level}, seen: {seen}");
                assert_eq!(level, "READ COMMITTED");
            }
            Err(error) => {
                assert!(is_serialization_failure(&error), "{level}, seen: {seen}: {error}");
                assert_ne!(level, "READ COMMITTED");
            }
        }
        older.batch_execute("ROLLBACK").await.unwrap();
        let again = retried(&older, level, async |client| advance(client, 33).await).await;
        assert!(!again, "{level}, seen: {seen}: the same token, once more");
    }
}

#[tokio::test]
async fn a_later_holder_reads_what_the_older_one_has_written() {
    let test = "a_later_holder_reads_what_the_older_one_has_written";
    let Some(database) = Database::new(test).await else { return };
    for (level, ends) in
        LEVELS.into_iter().flat_map(|level| [(level, "COMMIT"), (level, "ROLLBACK")])
    {
        database.clear().await;
        let (older, later) = (database.connect().await, database.connect().await);
        begin(&older, level).await;
        assert!(advance(&older, 33).await.unwrap());
        let pieces = read(&older).await.unwrap();
        write(&older, 33, pieces + 1).await.unwrap();
        let reading = retried(&later, level, async |client| {
            assert!(advance(client, 34).await?);
            read(client).await
        });
        let ending = async {
            database.waits().await;
            older.batch_execute(ends).await.unwrap();
        };
        let (read, ()) = within("the later holder", async { tokio::join!(reading, ending) }).await;
        assert_eq!(read, i64::from(ends == "COMMIT"), "{level}, {ends}");
    }
}

#[tokio::test]
async fn holders_of_other_resources_do_not_wait() {
    let Some(database) = Database::new("holders_of_other_resources_do_not_wait").await else {
        return;
    };
    for level in LEVELS {
        database.clear().await;
        let (one, other) = (database.connect().await, database.connect().await);
        begin(&one, level).await;
        assert!(advance(&one, 33).await.unwrap());
        begin(&other, level).await;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&"stock:desk", &1_i64];
        let advanced = other.execute(sql::ADVANCE, &parameters);
        assert_eq!(within("the other resource", advanced).await.unwrap(), 1);
        commit(&other).await.unwrap();
        commit(&one).await.unwrap();
    }
}

/// A holder with one token after the other. It reads in one transaction, and writes in this one or
/// the next.
async fn holder_of(database: &Database, holder: i64, level: &str, transactions: usize) {
    let client = database.connect().await;
    for token in tokens_of(holder) {
        let read_first = retried(&client, level, async |client| {
            if !advance(client, token).await? {
                return Ok(None);
            }
            let pieces = read(client).await?;
            if transactions == 1 {
                write(client, token, pieces + 1).await?;
            }
            Ok(Some(pieces))
        })
        .await;
        let Some(pieces) = read_first.filter(|_| transactions == 2) else { continue };
        // Where a holder stands still, and others overtake it.
        tokio::task::yield_now().await;
        retried(&client, level, async |client| {
            if advance(client, token).await? {
                write(client, token, pieces + 1).await?;
            }
            Ok(())
        })
        .await;
    }
}

/// Holders that overlap as no lock would let them.
async fn overlapping(database: &Database, level: &str, transactions: usize) -> Outcome {
    database.clear().await;
    let holders = (0..HOLDERS).map(|holder| holder_of(database, holder, level, transactions));
    join_all(holders).await;
    let client = database.connect().await;
    let accepted = client.query("SELECT token FROM writes ORDER BY place", &[]).await.unwrap();
    Outcome {
        accepted: accepted.iter().map(|row| row.get(0)).collect(),
        counter: read(&client).await.unwrap(),
    }
}

#[tokio::test]
async fn holders_that_overlap_lose_no_update() {
    let Some(database) = Database::new("holders_that_overlap_lose_no_update").await else { return };
    for level in LEVELS {
        for transactions in [1, 2] {
            overlapping(&database, level, transactions).await.check();
        }
    }
}

/// Why the token is registered before the first read.
#[tokio::test]
async fn a_holder_that_reads_first_loses_an_update() {
    let Some(database) = Database::new("a_holder_that_reads_first_loses_an_update").await else {
        return;
    };
    let (older, later) = (database.connect().await, database.connect().await);
    begin(&later, "READ COMMITTED").await;
    let pieces = read(&later).await.unwrap();
    retried(&older, "READ COMMITTED", async |client| {
        assert!(advance(client, 33).await?);
        let pieces = read(client).await?;
        write(client, 33, pieces + 1).await
    })
    .await;
    assert!(advance(&later, 34).await.unwrap());
    write(&later, 34, pieces + 1).await.unwrap();
    commit(&later).await.unwrap();
    assert_eq!(read(&later).await.unwrap(), 1, "two increments, and one of them is lost");
}

/// Why it takes a statement that locks the row.
#[tokio::test]
async fn a_check_by_select_lets_an_older_holder_through() {
    let Some(database) = Database::new("a_check_by_select_lets_an_older_holder_through").await
    else {
        return;
    };
    let (older, later) = (database.connect().await, database.connect().await);
    assert!(advance(&older, 33).await.unwrap());
    begin(&older, "READ COMMITTED").await;
    let check = "SELECT 1 FROM redlock_fence WHERE resource = $1 AND token > $2";
    let overtaken = older.query(check, &[&RESOURCE, &33_i64]).await.unwrap();
    assert!(overtaken.is_empty(), "the check passes");
    let pieces = read(&older).await.unwrap();
    retried(&later, "READ COMMITTED", async |client| {
        assert!(advance(client, 34).await?);
        let pieces = read(client).await?;
        write(client, 34, pieces + 1).await
    })
    .await;
    write(&older, 33, pieces + 1).await.unwrap();
    commit(&older).await.unwrap();
    assert_eq!(read(&older).await.unwrap(), 1, "two increments, and one of them is lost");
}
