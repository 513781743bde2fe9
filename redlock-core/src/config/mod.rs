//! A client's settings as data: what `serde` reads from a file, from the environment, or from
//! both.

mod value;

use std::{fmt, time::Duration};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use self::value::Key;
use crate::{
    builder::Builder,
    node::{Node, Restarts},
    options::call_settings,
    settings::client_settings,
};

/// The settings of a file: the nodes, the settings of calls that a client has defaults for, and those that only a
/// client has. Each acts as the builder's setter of its name.
macro_rules! config {
    (
        {$(
            $(#[$client_doc:meta])*
            $client:ident: $client_type:ty = $client_default:expr, set by ($($argument:tt)*) => $set:expr;
        )*}
        of_client { $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)* }
        of_call { $($_:tt)* }
    ) => {
        config! { nodes: Vec<Node>; $($name: $type;)* $($client: $client_type;)* }
    };
    ($($name:ident: $type:ty;)*) => {
        /// The settings of a client, read from a file or from the environment (feature `serde`).
        ///
        /// The names are those of the [`Builder`]'s setters. Only the nodes are required. A setting that is left
        /// out keeps its default. [`Builder::config`] applies the settings.
        ///
        /// | value | how to write it |
        /// |---|---|
        /// | `nodes` | a list of URLs, or one text with commas between the URLs |
        /// | a duration | `"30s"`: a whole number and `ms`, `s`, `m`, `h` or `d`; a number without a unit counts milliseconds |
        /// | a number | `5`, or the text `"5"`, as environment variables have it |
        /// | `restarts` | `"observed"`, `"strict"` or `"trusted"` |
        ///
        /// # A file
        ///
        /// ```
        /// use redlock_core::{Config, Redlock};
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let config: Config = toml::from_str(
        ///     r#"
        ///     nodes = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"]
        ///     ttl = "10s"
        ///     wait = 2000 # milliseconds
        ///     client_name = "checkout-1"
        ///     "#,
        /// )?;
        /// let redlock = Redlock::builder().config(config).build()?;
        /// # Ok(()) }
        /// ```
        ///
        /// # A file and the environment
        ///
        /// With the crate `config`; a field of type `Config` inside the application's own settings
        /// works as well.
        ///
        /// ```
        /// use redlock_core::Redlock;
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let nodes = "redis://10.0.0.1, redis://10.0.0.2, redis://10.0.0.3";
        /// # let variables = [("APP_LOCKS_NODES", nodes), ("APP_LOCKS_TTL", "10s")];
        /// # let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        /// // APP_LOCKS_NODES="redis://10.0.0.1, redis://10.0.0.2, redis://10.0.0.3"  APP_LOCKS_TTL=10s
        /// let settings = config::Config::builder()
        ///     .add_source(config::File::with_name("redlock").required(false)) // redlock.toml
        ///     .add_source(
        ///         // Not REDLOCK: the command line has variables of that prefix, and unknown names are errors.
        ///         config::Environment::with_prefix("APP_LOCKS")
        /// #           .source(Some(variables.into_iter().collect()))
        ///     )
        ///     .build()?;
        /// let redlock = Redlock::builder().config(settings.try_deserialize()?).build()?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Nodes that are more than a URL
        ///
        /// A Sentinel group, a cluster, your own certificate authority and credentials that change are given in code.
        /// Leave `nodes` out of the file in that case.
        ///
        /// ```
        /// use redlock_core::{Config, Node, Redlock};
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let config: Config = toml::from_str("ttl = '10s'")?;
        /// let group = Node::sentinel("locks", ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"]);
        /// let redlock = Redlock::builder().nodes([group]).config(config).build()?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        ///
        /// A value that cannot be read, an unknown name and a name that is given twice are errors of
        /// the deserializer. They name the setting and what to write instead, and never show the
        /// URL of a node. Some formats, such as TOML, print the line of the file beside an
        /// error: keep passwords in the environment if that is a concern. [`Builder::build`] checks whether
        /// the settings work together.
        ///
        /// The format must describe its own values, as TOML, JSON, YAML and environment variables
        /// do.
        #[derive(Clone, Default)]
        pub struct Config {
            $($name: Option<$type>,)*
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Config {
            /// Reads the value of the setting of this name. False when there is no such setting.
            fn read<'de, A: MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                match name {
                    $(stringify!($name) => {
                        let value = map.next_value_seed(Key::new(stringify!($name)))?;
                        self.$name = value;
                    })*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        impl Builder {
            /// Applies the settings of a [`Config`], as if the setters that it names were called
            /// here: a later call replaces an earlier value, and the nodes are added (feature `serde`).
            pub fn config(self, config: Config) -> Self {
                let builder = self;
                $(let builder = match config.$name {
                    Some(value) => builder.$name(value),
                    None => builder,
                };)*
                builder
            }
        }

        impl fmt::Debug for Config {
            /// Shows what is set. A [`Node`] shows no URL.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct("Config");
                $(if let Some(value) = &self.$name {
                    shown.field(stringify!($name), value);
                })*
                shown.finish()
            }
        }
    };
}

macro_rules! with_call_settings {
    ($($client_settings:tt)*) => { call_settings!(config, { $($client_settings)* }); };
}
client_settings!(with_call_settings);

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Any value is accepted here, so that `Settings` itself refuses a value that is not a
        // table. The format's own error would show the text, which may be a URL with a password
        // (rule 19).
        deserializer.deserialize_any(Settings)
    }
}

/// Reads the table of settings.
struct Settings;

impl<'de> Visitor<'de> for Settings {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of redlock settings, such as nodes = [\"redis://127.0.0.1:6379\"]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let mut config = Config::default();
        let mut seen: Vec<String> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom(format!("{name} is given twice: keep one of them")));
            }
            if !config.read(&name, &mut map)? {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom(unknown(&name)));
            }
            seen.push(name);
        }
        Ok(config)
    }

    /// The error leaves the text out, because it may be a URL with a password (rule 19).
    fn visit_str<E: Error>(self, _: &str) -> Result<Config, E> {
        Err(E::custom(format!("this is a text: write {}", Expecting(&self))))
    }
}

/// The values that a visitor expects, for a message.
struct Expecting<'a, V>(&'a V);

impl<'de, V: Visitor<'de>> fmt::Display for Expecting<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

/// Names the setting that was probably meant.
fn unknown(name: &str) -> String {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let near = NAMES.iter().find(|known| {
        let stem = known.strip_suffix('s').unwrap_or(known);
        **known == plain || plain == stem || plain.strip_suffix("_ms") == Some(known)
    });
    match near {
        Some(near) => format!("there is no setting {name:?}: write {near}"),
        None => format!("there is no setting {name:?}: the settings are {}", NAMES.join(", ")),
    }
}
