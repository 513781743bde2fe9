//! The settings of the lock: what the values of each kind may be, and the code that they become.
//!
//! A setting is a row in `keys.rs`. A new kind of setting is a variant of [`Kind`] and of [`Value`] here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, spanned::Spanned};

use crate::{
    paths::{Paths, mixed},
    value::{self, Count, Factor, Time},
};

/// What the values of a setting are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A duration.
    Time,
    /// A duration of which zero makes no sense.
    PositiveTime,
    /// How long a key lives at least.
    Expiry,
    /// The same, of which zero makes no sense.
    PositiveExpiry,
    /// A `u32`.
    Count,
    /// A `u32`: how many hold the lock at once.
    Permits,
    /// An `f64`, from 0 to below 1.
    Factor,
    /// A `bool`.
    Toggle,
    /// A text that is the same at every call.
    Label,
    /// Nothing: the key stands alone.
    Word,
}

impl Kind {
    /// Reads what was written for a key.
    pub(crate) fn read(self, key: &Ident, value: Expr) -> syn::Result<Value> {
        Ok(match self {
            Self::Time => Value::Time(value::time(key, value)?),
            Self::PositiveTime => Value::Time(value::positive_time(key, value)?),
            Self::Expiry => Value::Time(value::expiry(key, value)?),
            Self::PositiveExpiry => Value::Time(value::positive_expiry(key, value)?),
            Self::Count => Value::Count(value::count(key, value)?),
            Self::Permits => Value::Count(value::permits(key, value)?),
            Self::Factor => Value::Factor(value::factor(key, value)?),
            Self::Toggle => Value::Toggle(value::toggle(key, value)?),
            Self::Label => Value::Label(value::label(key, value)?),
            Self::Word => return Err(value::is_not_taken(key, value)),
        })
    }
}

/// The value of a setting.
#[derive(Debug)]
pub(crate) enum Value {
    Time(Time),
    Count(Count),
    Factor(Factor),
    Toggle(Expr),
    Label(Expr),
    /// The label where none is given: the template of the resource.
    Template(String),
    /// The key alone, and where it stands.
    Word(Span),
}

impl Value {
    /// Whether it is known when the function is compiled.
    fn is_literal(&self) -> bool {
        match self {
            Self::Time(Time::Millis(_))
            | Self::Count(Count::Number(_))
            | Self::Factor(Factor::Number(_))
            | Self::Toggle(Expr::Lit(_))
            | Self::Template(_)
            | Self::Word(_) => true,
            Self::Time(Time::Expr(_))
            | Self::Count(Count::Expr(_))
            | Self::Factor(Factor::Expr(_))
            | Self::Toggle(_)
            | Self::Label(_) => false,
        }
    }

    /// What the setter gets, and the place of the call. All of the call lies on the value, so that
    /// rustc shows a wrong value there alone.
    fn argument(&self, paths: &Paths) -> (TokenStream, Span) {
        let argument = match self {
            Self::Time(time) => duration(time, paths),
            Self::Count(Count::Number(number)) => number.to_token_stream(),
            Self::Factor(Factor::Number(number)) => number.to_token_stream(),
            Self::Count(Count::Expr(value))
            | Self::Factor(Factor::Expr(value))
            | Self::Toggle(value)
            | Self::Label(value) => value.to_token_stream(),
            Self::Template(template) => quote!(#template),
            Self::Word(place) => return (TokenStream::new(), *place),
        };
        let place = argument.span();
        (argument, place)
    }
}

fn duration(time: &Time, paths: &Paths) -> TokenStream {
    match time {
        Time::Millis(millis) => {
            let private = paths.private();
            quote_mixed!(#private::Duration::from_millis(#millis))
        }
        // rustc may have to know the setting's type to find that of the expression.
        Time::Expr(duration) if !says_its_type(duration) => duration.to_token_stream(),
        Time::Expr(duration) => {
            let place = duration.span();
            let private = paths.private_at(place);
            quote_spanned!(mixed(place)=> #private::duration(#duration))
        }
    }
}

/// Whether rustc knows the type of the expression from the expression alone.
fn says_its_type(value: &Expr) -> bool {
    match value {
        Expr::Binary(_) | Expr::Cast(_) | Expr::Field(_) | Expr::Path(_) => true,
        Expr::Paren(paren) => says_its_type(&paren.expr),
        Expr::Unary(unary) => says_its_type(&unary.expr),
        _ => false,
    }
}

/// The settings with which the lock is asked for, in the order in which they were written. For a setting
/// that is absent, the client has a default.
#[derive(Debug, Default)]
pub(crate) struct Settings(Vec<Setting>);

#[derive(Debug)]
struct Setting {
    name: &'static str,
    /// Where its key stands.
    key: Span,
    value: Value,
}

impl Settings {
    /// Adds a setting that is not there yet.
    pub(crate) fn add(&mut self, name: &'static str, key: Span, value: Value) {
        self.0.push(Setting { name, key, value });
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|setting| setting.name == name)
    }

    /// Those of these names that were written, in that order, and where their keys stand.
    pub(crate) fn among(&self, names: &[&str]) -> impl Iterator<Item = (&'static str, Span)> {
        let known = self.0.iter().filter(|setting| names.contains(&setting.name));
        known.map(|setting| (setting.name, setting.key))
    }

    /// Statements after which `options` is a `&LockOptions`. Each value that is an expression ends a statement:
    /// what it borrows, such as the guard of a mutex, is given back before the next one.
    pub(crate) fn options(&self, options: &Ident, paths: &Paths) -> TokenStream {
        let krate = paths.krate();
        let mut statements = TokenStream::new();
        let mut set = quote_mixed!(#krate::LockOptions::new());
        let mut is_constant = true;
        for Setting { name, value, .. } in &self.0 {
            let (argument, place) = value.argument(paths);
            let setter = Ident::new(name, mixed(place));
            set.extend(quote_spanned!(mixed(place)=> .#setter(#argument)));
            if !value.is_literal() {
                is_constant = false;
                statements.extend(quote_mixed!(let #options = #set;));
                set = options.to_token_stream();
            }
        }
        // Part of the program's data if it can be: otherwise the code that builds them is in it for each
        // function.
        let set = if is_constant { quote_mixed!(const { &#set }) } else { quote_mixed!(&#set) };
        quote_mixed!(#statements let #options = #set;)
    }
}
