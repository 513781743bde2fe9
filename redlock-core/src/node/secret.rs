//! What another client has written.

use std::fmt;

/// The value of another client's key. Never printed (rule 19).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl Secret {
    /// The name of the client. `None` for a value of another library.
    pub(crate) fn client_name(&self) -> Option<&str> {
        let (token, name) = self.0.split_once('.')?;
        let is_ours = token.len() == 40 && token.bytes().all(|it| it.is_ascii_hexdigit());
        (is_ours && !name.is_empty() && name.is_ascii()).then_some(name)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").field(&self.client_name()).finish()
    }
}
