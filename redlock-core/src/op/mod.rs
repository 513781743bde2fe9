//! The operations of a client on its nodes, one in each file.
//!
//! | file | what it does |
//! |---|---|
//! | [`acquire`] | asks for a lock, and waits for it |
//! | [`extend`] | renews the keys of a hold |
//! | [`release`] | whether the lease passes on (pure); then the deletes |
//! | [`hand_off`] | ends a hold here, and begins it in another process |
//! | [`watch`] | waits until a lock may have become free |
//! | [`inspect`] | shows a lock to an operator, and takes it away |
//! | [`health`] | whether nodes, and a quorum, are alive |
//! | `no_quorum`, `unheard`, `unguarded` | the error, the second try, and the owner of a new hold, that several of them share |

pub(crate) mod acquire;
pub(crate) mod extend;
pub(crate) mod hand_off;
pub(crate) mod health;
pub(crate) mod inspect;
#[cfg(test)]
mod inspect_tests;
mod no_quorum;
pub(crate) mod release;
mod unguarded;
mod unheard;
pub(crate) mod watch;
