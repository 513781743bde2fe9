//! The arguments of the attribute: the keys, and the values that were written for them.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Expr, Ident, LitStr, Path, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

use crate::{
    errors::Errors,
    keys::{CRATE, SETTINGS, other_keys, usage},
    nodes::{self, PoolName, PoolNames},
    resource::{self, Resource},
    setting::{Kind, Settings, Value},
    suggest,
    value::{self, OnLost},
};

/// The value of one key.
#[derive(Debug)]
pub(crate) struct Arg<T> {
    /// The key, for messages that are about the key.
    pub(crate) key: Ident,
    pub(crate) value: T,
}

macro_rules! arguments {
    ($($key:ident: $type:ty = $take:ident($($read:path)?), $example:literal;)*) => {
        /// All arguments. A key with a mistake is absent, and its error is collected.
        #[derive(Debug)]
        pub(crate) struct Args {
            $(pub(crate) $key: Option<Arg<$type>>,)*
            pub(crate) krate: Option<Arg<Path>>,
            pub(crate) settings: Settings,
            /// Whether `map_err` and `on_reject` may be absent only because of a mistake in them or before them.
            pub(crate) refusal_unread: bool,
        }

        impl Args {
            fn of(entries: &mut Entries, refusal_unread: bool, errors: &mut Errors) -> Self {
                let mut take = Take { entries, errors };
                Self {
                    $($key: take.$take(stringify!($key), $($read)?),)*
                    krate: take.value(CRATE.0, value::path),
                    settings: take.settings(),
                    refusal_unread,
                }
            }
        }
    };
}
other_keys!(arguments);

impl Args {
    /// Reads everything, so that all mistakes are told at once.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut entries = Entries::default();
        // What was read before a syntax error is kept: the fallback wants to know `lock`.
        let read =
            errors.catch(Parser::parse2(|input: ParseStream<'_>| entries.parse(input), tokens));
        let refusal_unread = read.is_none() || entries.has("map_err") || entries.has("on_reject");
        Self::of(&mut entries, refusal_unread, errors)
    }
}

/// What was written, in its order and not yet read.
#[derive(Default)]
struct Entries(Vec<(Ident, Option<Expr>)>);

impl Entries {
    fn parse(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            let key = Self::key(input)?;
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                if input.is_empty() || input.peek(Token![,]) {
                    return Err(needs_value(&key));
                }
                Some(self.value(&key, input)?)
            } else if input.peek(Token![:]) {
                return Err(input.error("expected `=` between a key and its value"));
            } else {
                None
            };
            let is_lock = key == "lock";
            self.push(key, value)?;
            if is_lock && input.peek(Token![:]) {
                let told =
                    "`lock` is a name alone, its type is always `LockHandle`: write `lock = guard`";
                return Err(syn::Error::new_spanned(until_comma(input), told));
            }
            if !input.is_empty() && !input.peek(Token![,]) {
                return Err(input.error("expected `,` before the next key"));
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    }

    fn value(&mut self, key: &Ident, input: ParseStream<'_>) -> syn::Result<Expr> {
        if key == "lock" && input.peek(Token![mut]) {
            let place = input.parse::<Token![mut]>()?;
            self.push(key.clone(), input.parse().ok())?;
            let told = "`lock` is a name alone, and nothing of a `LockHandle` needs `mut`: write `lock = guard`";
            return Err(syn::Error::new_spanned(place, told));
        }
        let ahead = input.fork();
        input.parse().map_err(|error: syn::Error| {
            let written = until_comma(&ahead);
            match syn::parse2::<Expr>(written.clone()) {
                // There is no place after the end: rustc would show the whole attribute.
                Err(end) if end.to_string().starts_with("unexpected end of input") => {
                    let told = format!(
                        "the value of `{key}` breaks off: write it out, such as `{}`",
                        usage(key).unwrap_or_default()
                    );
                    syn::Error::new_spanned(written, told)
                }
                _ => {
                    let told = format!(
                        "the value of `{key}` is no expression: {error}, such as `{}`",
                        usage(key).unwrap_or_default()
                    );
                    syn::Error::new(error.span(), told)
                }
            }
        })
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    fn key(input: ParseStream<'_>) -> syn::Result<Ident> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            let fix = format!("name the key: `resource = {:?}`", text.value());
            return Err(syn::Error::new(text.span(), fix));
        }
        let key = input.call(Ident::parse_any).map_err(|error| {
            syn::Error::new(
                error.span(),
                "expected a key, such as `resource = \"order:{order_id}\"`",
            )
        })?;
        if usage(&key).is_none() {
            return Err(syn::Error::new(key.span(), suggest::unknown_key(&key.to_string())));
        }
        Ok(key)
    }

    fn push(&mut self, key: Ident, value: Option<Expr>) -> syn::Result<()> {
        if self.0.iter().any(|(earlier, _)| *earlier == key) {
            let told = format!("`{key}` is given twice: keep one of the two");
            return Err(syn::Error::new(key.span(), told));
        }
        self.0.push((key, value));
        Ok(())
    }
}

/// Gives the value of each key, and collects the mistakes.
struct Take<'a> {
    entries: &'a mut Entries,
    errors: &'a mut Errors,
}

impl Take<'_> {
    fn entry(&mut self, name: &str) -> Option<(Ident, Option<Expr>)> {
        let at = self.entries.0.iter().position(|(key, _)| key == name)?;
        Some(self.entries.0.remove(at))
    }

    fn value<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Ident, Expr) -> syn::Result<T>,
    ) -> Option<Arg<T>> {
        let (key, value) = self.entry(name)?;
        let value = value.ok_or_else(|| needs_value(&key));
        let value = self.errors.catch(value.and_then(|value| read(&key, value)))?;
        Some(Arg { key, value })
    }

    /// A key that stands alone. It counts as there also where a value is written for it by mistake.
    fn flag(&mut self, name: &str) -> Option<Arg<()>> {
        let (key, value) = self.entry(name)?;
        if let Some(value) = value {
            self.errors.push(value::is_not_taken(&key, value));
        }
        Some(Arg { key, value: () })
    }

    /// In the order in which they were written.
    fn settings(&mut self) -> Settings {
        let mut settings = Settings::default();
        let row = |key: &Ident| SETTINGS.iter().find(|(name, ..)| key == name);
        for (key, value) in self.entries.0.extract_if(.., |(key, _)| row(key).is_some()) {
            let Some((name, kind, _)) = row(&key) else { continue };
            let value = match (kind, value) {
                (Kind::Word, None) => Ok(Value::Word(key.span())),
                (_, None) => Err(needs_value(&key)),
                (kind, Some(value)) => kind.read(&key, value),
            };
            if let Some(value) = self.errors.catch(value) {
                settings.add(name, key.span(), value);
            }
        }
        settings
    }
}

/// The tokens up to the next comma.
fn until_comma(input: ParseStream<'_>) -> TokenStream {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend(input.parse::<TokenTree>());
    }
    tokens
}

/// The name that `lock` gives, also where an earlier mistake keeps the arguments from being read.
pub(crate) fn lock_in(attribute: TokenStream) -> Option<Ident> {
    let mut tokens = attribute.into_iter();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Ident(key) if key == "lock")
            && matches!(tokens.next(), Some(TokenTree::Punct(is)) if is.as_char() == '=')
        {
            return match tokens
                .find(|token| !matches!(token, TokenTree::Ident(word) if word == "mut"))?
            {
                TokenTree::Ident(name) if value::is_variable(&name) => Some(name),
                _ => None,
            };
        }
    }
    None
}

fn needs_value(key: &Ident) -> syn::Error {
    let told = format!("`{key}` needs a value: `{}`", usage(key).unwrap_or_default());
    syn::Error::new(key.span(), told)
}

/// The error of an attribute without a resource; it has no place but the attribute itself.
pub(crate) fn no_resource() -> syn::Error {
    syn::Error::new(
        Span::call_site(),
        "`#[redlock]` needs to know what to lock: `resource = \"order:{order_id}\"`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use quote::quote;

    fn errors_of(source: &str) -> Vec<String> {
        let mut errors = Errors::default();
        Args::parse(source.parse().unwrap(), &mut errors);
        errors.into_error().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
        keys::all().chain([CRATE])
    }

    /// A legal way to write each key.
    fn written(name: &str) -> String {
        let usage = keys().find(|(key, _)| *key == name).unwrap().1;
        usage.replace("..", "0")
    }

    #[test]
    fn every_usage_that_a_message_shows_is_read() {
        for (name, _) in keys() {
            assert_eq!(errors_of(&written(name)), [""; 0], "{name}");
        }
    }

    #[test]
    fn any_two_keys_go_together_in_either_order_and_no_key_goes_twice() {
        for (first, _) in keys() {
            for (second, _) in keys() {
                let told = errors_of(&format!("{}, {}", written(first), written(second)));
                if first == second {
                    assert_eq!(told, [format!("`{first}` is given twice: keep one of the two")]);
                } else {
                    assert_eq!(told, [""; 0], "{first}, {second}");
                }
            }
        }
    }

    #[test]
    fn nothing_that_was_written_is_left_unread() {
        for (name, _) in keys() {
            let mut entries = Entries::default();
            let tokens = written(name).parse().unwrap();
            Parser::parse2(|input: ParseStream<'_>| entries.parse(input), tokens).unwrap();
            assert!(entries.has(name));
            Args::of(&mut entries, false, &mut Errors::default());
            assert!(!entries.has(name), "{name}");
        }
    }

    #[test]
    fn all_wrong_values_are_told_at_once() {
        let told = errors_of("resource = \"a{\", ttl = \"soon\", pools = [], on_lost = \"panic\"");
        assert_eq!(told.len(), 4, "{told:?}");
    }

    #[test]
    fn what_was_read_before_a_mistake_is_kept() {
        let mut errors = Errors::default();
        let args = Args::parse(quote!(lock = guard, tll = 5), &mut errors);
        assert_eq!(args.lock.unwrap().value, "guard");
        assert!(errors.into_error().is_some());
    }
}
