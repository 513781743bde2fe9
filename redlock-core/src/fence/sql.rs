//! SQL with which PostgreSQL and SQLite refuse a holder that is too late.
//!
//! One table beside yours keeps the largest token that was seen for each resource. One statement,
//! [`ADVANCE`], checks a token against it and stores it. Your tables do not change.
//!
//! # The rule
//!
//! - **Register the token before the first read.** `ADVANCE` is the first statement of the
//!   transaction that reads what the holder bases its work on. Otherwise the write of an older
//!   holder can land between this holder's read and its write, and this holder overwrites it.
//! - **Begin every later transaction of the same holder with it, too.** An equal token is accepted,
//!   so a holder may use as many transactions as it likes.
//! - **If no row changed, a later holder has already registered.** Roll back, write nothing, and do
//!   not try again with this token.
//! - **Use the same resource name** as for the lock, in every program that writes the same data.
//! - **A set registers each of its resources**, in sorted order, and is refused if any of them is refused: a later
//!   holder of one of them alone advances only that row.
//! - **Limit the time of a transaction.** A holder that is paused inside its transaction keeps its row locked, and each
//!   later holder waits for it, even long after its lease has ended. Set PostgreSQL's
//!   `idle_in_transaction_session_timeout` and `lock_timeout` below the ttl. SQLite has no such limit.
//!
//! `ADVANCE` locks its row until the transaction ends. So the transactions on one resource run one after
//! the other, whatever the lock on the nodes is doing. Holders of other resources do not wait.
//!
//! # Isolation
//!
//! | store | what can happen apart from one changed row or none |
//! |---|---|
//! | PostgreSQL, `READ COMMITTED` | nothing: the statement waits for a transaction that holds the row, and then sees what that has committed |
//! | PostgreSQL, `REPEATABLE READ` and `SERIALIZABLE` | SQLSTATE 40001 from any statement or from the commit: roll back, and run the whole transaction again **with the same token** |
//! | PostgreSQL, any level | 40P01 (a deadlock), 55P03 (`lock_timeout`), and 25P03 (idle for too long), after which the connection is closed: the same |
//! | SQLite | `SQLITE_BUSY` if another connection writes for longer than the busy timeout: the same |
//!
//! Do not take a new lock for the second try. The token identifies the holder, and a
//! transaction that failed does not change that.
//!
//! A plain `SELECT` or `EXISTS` on the table instead of `ADVANCE` is not enough under `READ
//! COMMITTED`: two transactions can then check at the same time and both write.
//!
//! # Example
//!
//! ```
//! use redlock_core::fence::sql;
//! use rusqlite::Connection;
//!
//! let mut store = Connection::open_in_memory()?;
//! store.execute(sql::CREATE_TABLE, [])?;
//! store.execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)")?;
//! store.execute("INSERT INTO stock VALUES ('lamp', 10)", [])?;
//!
//! /// Takes a piece; false when a later holder has been there.
//! fn take(store: &mut Connection, token: i64) -> rusqlite::Result<bool> {
//!     let change = store.transaction()?;
//!     if change.execute(sql::ADVANCE, ("stock:lamp", token))? == 0 {
//!         return Ok(false); // dropped, the transaction rolls back
//!     }
//!     let left: i64 =
//!         change.query_row("SELECT pieces FROM stock WHERE item = 'lamp'", [], |row| row.get(0))?;
//!     change.execute("UPDATE stock SET pieces = ?1 WHERE item = 'lamp'", [left - 1])?;
//!     change.commit()?;
//!     Ok(true)
//! }
//!
//! assert!(take(&mut store, 33)?);
//! assert!(take(&mut store, 34)?); // the next holder
//! assert!(take(&mut store, 34)?); // the same holder once more
//! assert!(!take(&mut store, 33)?); // the first one, awake again, is too late
//! # Ok::<(), rusqlite::Error>(())
//! ```

/// Creates the table that [`ADVANCE`] needs, unless it is there.
///
/// It has one row for each resource, with the largest token that was seen. Delete a row only when no
/// holder with an older token can still be alive, for example when the resource itself is deleted for
/// good. Without its row, any token is accepted.
///
/// Run it with your migrations, not at every start. If two programs run it at the same moment, PostgreSQL can
/// return a unique violation in its own catalogue.
///
/// It has no parameters. It works in PostgreSQL and SQLite.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS redlock_fence (
    resource TEXT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
)";

/// Registers a token. It changes one row if no larger token of this resource was seen, and no row if
/// a later holder has already registered.
///
/// Parameters: `$1`, the resource as text, and `$2`, the token as a 64-bit integer. A smaller token
/// is refused and an equal one accepted. Run it as the first statement of a transaction: it fences the whole
/// transaction. See [the rule](self#the-rule). It works in PostgreSQL and SQLite.
///
/// # Errors
///
/// Those of the store. After SQLSTATE 40001 (PostgreSQL) or `SQLITE_BUSY` (SQLite), run the transaction
/// again with the same token.
pub const ADVANCE: &str = "\
INSERT INTO redlock_fence (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
WHERE redlock_fence.token <= excluded.token";
