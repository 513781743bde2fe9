//! The store that clients change: a counter in SQLite.

use std::path::Path;

use redlock_core::{FencingToken, fence::sql};
use rusqlite::{Connection, Result, Transaction, TransactionBehavior};

use super::RESOURCE;
use crate::LIMIT;

/// One connection to the store.
pub(super) struct Store(Connection);

/// The result of all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    /// How many increments were written.
    pub(super) increments: i64,
    /// The value of the counter.
    pub(super) counter: i64,
}

impl Store {
    /// Makes an empty one.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let store = Self::open(path)?;
        store.0.pragma_update(None, "journal_mode", "wal")?;
        store.0.execute_batch(sql::CREATE_TABLE)?;
        let tables = "
            CREATE TABLE counter (value INTEGER, writes INTEGER);
            INSERT INTO counter VALUES (0, 0)";
        store.0.execute_batch(tables)?;
        Ok(store)
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
        let database = Connection::open(path)?;
        // A client may be stopped within a transaction.
        database.busy_timeout(LIMIT)?;
        // The program is not about power failures.
        database.pragma_update(None, "synchronous", "off")?;
        Ok(Self(database))
    }

    /// Reads the counter. With a token, which is registered first: `None` when a later holder has
    /// been there.
    pub(super) fn read(&mut self, token: Option<FencingToken>) -> Result<Option<i64>> {
        self.transaction(token, |change| {
            change.query_row("SELECT value FROM counter", [], |row| row.get(0))
        })
    }

    /// Writes the counter; false when a later holder has been there.
    pub(super) fn write(&mut self, token: Option<FencingToken>, value: i64) -> Result<bool> {
        let written = self.transaction(token, |change| {
            change.execute("UPDATE counter SET value = ?1, writes = writes + 1", [value])
        })?;
        Ok(written.is_some())
    }

    fn transaction<T>(
        &mut self,
        token: Option<FencingToken>,
        body: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        // It waits for its turn to write at once: a transaction that has read first could not.
        let change = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(token) = token
            && change.execute(sql::ADVANCE, (RESOURCE, i64::from(token)))? == 0
        {
            return Ok(None);
        }
        let value = body(&change)?;
        change.commit()?;
        Ok(Some(value))
    }

    pub(super) fn totals(&self) -> Result<Totals> {
        self.0.query_row("SELECT writes, value FROM counter", [], |row| {
            Ok(Totals { increments: row.get(0)?, counter: row.get(1)? })
        })
    }
}
