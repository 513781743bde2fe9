//! Mistakes, collected: a user sees all of them in one build.

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value of a success; a failure is kept.
    pub(crate) fn catch<T>(&mut self, outcome: syn::Result<T>) -> Option<T> {
        outcome.map_err(|error| self.push(error)).ok()
    }

    /// All of them as one, if there are any.
    pub(crate) fn into_error(self) -> Option<syn::Error> {
        self.0
    }
}
