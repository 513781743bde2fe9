//! The resources of a lock: one of them, or a set that is locked as a whole.

use std::{collections::BTreeSet, slice};

use crate::{error::LockError, node::KeySet};

/// The longest resource in bytes: keys stay readable and cheap.
const MAX_RESOURCE_BYTES: usize = 1024;

/// The most resources of a set. One script sets all of them, while the node does nothing else.
const MAX_RESOURCES: usize = KeySet::MAX;

/// The longest name of a set in errors and events, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// What a lock is on. A set of one resource is that resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resources {
    One(String),
    Set(Box<Set>),
}

/// The most characters of a resource that an error shows.
const MAX_SHOWN: usize = 64;

/// Several resources, or none by mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    /// In the order in which they were named, each once.
    all: Vec<String>,
    /// The name of the set in errors and events.
    name: String,
}

impl Default for Resources {
    fn default() -> Self {
        Self::One(String::new())
    }
}

impl Resources {
    /// Folds resources that are named twice.
    pub(crate) fn all(named: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut all: Vec<String> = named.into_iter().map(Into::into).collect();
        let mut seen = BTreeSet::new();
        all.retain(|resource| seen.insert(resource.clone()));
        match <[String; 1]>::try_from(all) {
            Ok([one]) => Self::One(one),
            Err(all) => {
                let name = name_of(&all);
                Self::Set(Box::new(Set { all, name }))
            }
        }
    }

    /// The only resource, or the first that was named.
    pub(crate) fn first(&self) -> &str {
        self.as_slice().first().map_or("", String::as_str)
    }

    /// All of them, in the order in which they were named.
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(resource) => slice::from_ref(resource),
            Self::Set(set) => &set.all,
        }
    }

    pub(crate) fn has(&self, resource: &str) -> bool {
        self.as_slice().iter().any(|it| it == resource)
    }

    /// The name of all of them in errors and events.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::One(resource) => resource,
            Self::Set(set) => &set.name,
        }
    }

    /// Refuses resources that cannot be locked.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        let all = self.as_slice();
        let invalid = |problem| {
            let resource = self.name().to_owned();
            Err(LockError::InvalidResource { resource, problem })
        };
        if all.is_empty() {
            return invalid("the set is empty: name what is to be locked".to_owned());
        }
        if all.len() > MAX_RESOURCES {
            let most = MAX_RESOURCES;
            return invalid(format!(
                "there are {} of them: lock at most {most} at once",
                all.len()
            ));
        }
        all.iter().try_for_each(|resource| check(resource))
    }
}

/// Refuses a resource that cannot be locked.
pub(crate) fn check(resource: &str) -> Result<(), LockError> {
    let problem = if resource.is_empty() {
        "it is empty: name what is to be locked".to_owned()
    } else if resource.len() > MAX_RESOURCE_BYTES {
        format!("it has {} bytes: use at most {MAX_RESOURCE_BYTES}", resource.len())
    } else {
        return Ok(());
    };
    Err(invalid(resource, problem))
}

/// A text of at most so many characters, and an ellipsis if it was longer.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error of a resource that cannot be locked, whatever its length.
pub(crate) fn invalid(resource: &str, problem: String) -> LockError {
    LockError::InvalidResource { resource: shortened(resource, MAX_SHOWN), problem }
}

/// As many of the resources as a line of text can name.
fn name_of(all: &[String]) -> String {
    let mut name = String::new();
    for (named, resource) in all.iter().enumerate() {
        if named > 0 && name.len() + resource.len() > MAX_NAME_BYTES {
            return format!("{name} and {} more", all.len() - named);
        }
        if named > 0 {
            name.push_str(", ");
        }
        name.push_str(&shortened(resource, MAX_NAME_BYTES));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_keep_their_order_and_duplicates_are_folded() {
        let set = Resources::all(["b", "a", "b", "c", "a"]);
        assert_eq!(set.as_slice(), ["b", "a", "c"]);
        assert_eq!((set.first(), set.name()), ("b", "b, a, c"));
        assert_eq!(Resources::all(["a", "a"]), Resources::One("a".to_owned()));
    }

    #[test]
    fn a_set_that_cannot_be_locked_is_refused_with_the_reason() {
        let problem = |set: Resources| match set.check() {
            Err(LockError::InvalidResource { resource, problem }) => (resource, problem),
            other => panic!("{other:?}"),
        };
        let none = Resources::all([] as [&str; 0]);
        assert_eq!(none.first(), "");
        assert!(problem(none).1.contains("the set is empty"));
        assert!(problem(Resources::all(["a", ""])).1.contains("it is empty"));
        let long = "x".repeat(MAX_RESOURCE_BYTES + 1);
        let (resource, told) = problem(Resources::all(["a", &long]));
        assert!(told.contains("1025 bytes"), "{told}");
        assert_eq!(resource, "x".repeat(MAX_SHOWN) + "…");
        let many = |count: usize| Resources::all((0..count).map(|it| it.to_string()));
        many(MAX_RESOURCES).check().unwrap();
        assert!(problem(many(MAX_RESOURCES + 1)).1.contains("65 of them"));
    }

    #[test]
    fn the_name_of_a_set_is_one_short_line() {
        let many = Resources::all((0..1000).map(|it| format!("account:{it}")));
        assert!(many.name().len() < 250 && many.name().ends_with(" more"), "{}", many.name());
        assert!(many.name().starts_with("account:0, account:1, "));
        let long = Resources::all(["x".repeat(5000), "y".repeat(5000)]);
        assert!(long.name().len() < 250, "{}", long.name());
    }
}
