//! Reading one value. Every error begins with the name of the setting and ends with what to write.

use std::{fmt, marker::PhantomData, time::Duration};

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use crate::durations;
use crate::node::{Node, Restarts};

/// A type of setting, and the forms in which a file or the environment can say it. `Err` is what to
/// write instead.
pub(super) trait Value: Sized {
    /// The form of the value, with an example.
    const EXAMPLE: &'static str;

    fn from_text(text: &str) -> Result<Self, String>;

    fn from_integer(_: u64) -> Option<Self> {
        None
    }

    fn from_float(_: f64) -> Option<Self> {
        None
    }

    /// Reads a list of texts.
    fn from_list(_: Vec<String>) -> Option<Self> {
        None
    }
}

impl Value for Duration {
    const EXAMPLE: &'static str =
        "a duration in words, such as \"30s\", or in whole milliseconds, such as 30000";

    fn from_text(text: &str) -> Result<Self, String> {
        durations::duration_in_words(text)
    }

    fn from_integer(millis: u64) -> Option<Self> {
        Some(Self::from_millis(millis))
    }
}

/// A number that a text may hold as well.
macro_rules! integer {
    ($($type:ty: $example:literal;)*) => {$(
        impl Value for $type {
            const EXAMPLE: &'static str = $example;

            fn from_text(text: &str) -> Result<Self, String> {
                text.trim()
                    .parse()
                    .map_err(|_| format!("{text:?} cannot be used: write {}", Self::EXAMPLE))
            }

            fn from_integer(number: u64) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}

integer! {
    u32: "a whole number from 0 to 4294967295, such as 5";
    usize: "a whole number from 0, such as 1000";
}

impl Value for f64 {
    const EXAMPLE: &'static str = "a fraction of the ttl, such as 0.01";

    fn from_text(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("{text:?} cannot be used: write {}", Self::EXAMPLE))
    }

    fn from_integer(number: u64) -> Option<Self> {
        u32::try_from(number).ok().map(Self::from)
    }

    fn from_float(number: f64) -> Option<Self> {
        Some(number)
    }
}

impl Value for String {
    const EXAMPLE: &'static str = "a text in quotes, such as \"checkout\"";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    /// Environment variables are read as numbers where they look like one.
    fn from_integer(number: u64) -> Option<Self> {
        Some(number.to_string())
    }
}

impl Value for Restarts {
    const EXAMPLE: &'static str = "\"observed\", \"strict\" or \"trusted\"";

    fn from_text(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "observed" => Ok(Self::Observed),
            "strict" => Ok(Self::Strict),
            "trusted" => Ok(Self::Trusted),
            _ => Err(format!("{text:?} cannot be used: write {}", Self::EXAMPLE)),
        }
    }
}

impl Value for Vec<Node> {
    const EXAMPLE: &'static str = "a list of URLs, such as [\"redis://127.0.0.1:6379\"]";

    /// URLs between commas. A comma that no URL follows belongs to a password.
    fn from_text(text: &str) -> Result<Self, String> {
        let mut urls: Vec<String> = Vec::new();
        for part in text.split(',') {
            match urls.last_mut() {
                Some(last) if !starts_a_url(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => urls.push(part.to_owned()),
            }
        }
        // The text is not shown: it may hold a password (rule 19).
        let told = if urls.len() > 1 { "it has a comma too many" } else { "it is empty" };
        Self::from_list(urls).ok_or_else(|| format!("{told}: write {}", Self::EXAMPLE))
    }

    fn from_list(urls: Vec<String>) -> Option<Self> {
        let urls = urls.iter().map(|url| url.trim());
        urls.map(|url| (!url.is_empty()).then(|| Node::new(url))).collect()
    }
}

/// Whether a URL begins here, or nothing at all: an empty entry is a mistake to report.
fn starts_a_url(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
        })
}

/// Reads the value of the setting of this name; `None` where the format has a null.
pub(super) struct Key<T> {
    name: &'static str,
    value: PhantomData<T>,
}

impl<T: Value> Key<T> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    fn refuse<E: Error>(&self, what: impl fmt::Display) -> E {
        E::custom(format!("{}: {what}: write {}", self.name, T::EXAMPLE))
    }
}

impl<'de, T: Value> DeserializeSeed<'de> for Key<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Value> Visitor<'de> for Key<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {}, {}", self.name, T::EXAMPLE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        T::from_text(text).map(Some).map_err(|told| E::custom(format!("{}: {told}", self.name)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<T>, E> {
        T::from_integer(number)
            .map(Some)
            .ok_or_else(|| self.refuse(format_args!("{number} cannot be used")))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<T>, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(self.refuse(format_args!("{number} is negative"))),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<T>, E> {
        T::from_float(number)
            .map(Some)
            .ok_or_else(|| self.refuse(format_args!("{number} cannot be used")))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        Err(self.refuse(format_args!("{value} cannot be used")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        let mut texts = Vec::new();
        while let Some(Text(text)) = list.next_element_seed(TextOf(self.name))? {
            texts.push(text);
        }
        T::from_list(texts).map(Some).ok_or_else(|| self.refuse("this list cannot be used"))
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// One text of a list. The error does not show the value (rule 19).
struct Text(String);

struct TextOf(&'static str);

impl<'de> DeserializeSeed<'de> for TextOf {
    type Value = Text;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextOf {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {}, texts in quotes", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }
}
