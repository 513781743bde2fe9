//! The rules between keys, and between keys and the function.
//!
//! Core refuses at run time what cannot work. A rule of it that is known to be broken when the function is
//! compiled is a mistake in the attribute, and is told here: a function with `skip_if_held` would return
//! its default for ever.

use proc_macro2::Span;
use syn::{Expr, Ident};

use crate::{
    args::{Arg, Args},
    errors::Errors,
    function::Function,
    nodes::{PoolName, PoolNames},
    output::Output,
    resource::Resource,
    setting::{Settings, Value},
    value::{OnLost, Time},
};

/// What the attribute asks for, free of contradictions.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) resource: Resource,
    pub(crate) settings: Settings,
    pub(crate) on_lost: OnLost,
    pub(crate) lock: Option<Ident>,
    pub(crate) refusal: Refusal,
}

/// The pool or the client that is asked for the lock.
#[derive(Debug)]
pub(crate) enum Source {
    DefaultPool,
    Pool(PoolName),
    Pools(PoolNames),
    Client(Expr),
}

/// What the function returns when the lock is refused or lost.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// `Err(error.into())`
    ErrorFrom,
    /// `Err(f(error))`
    MapErr(Expr),
    /// `f(error)`
    OnReject(Expr),
    /// `Ok(Default::default())` if held, else as the other says.
    SkipOk(Box<Refusal>),
    /// `Default::default()` if held, else as the other says.
    Skip(Box<Refusal>),
    /// `Default::default()`
    Default,
}

impl Plan {
    /// The plan; `None` without an error is for want of a resource.
    pub(crate) fn new(
        args: Args,
        function: &Function,
        output: &Output,
        errors: &mut Errors,
    ) -> Option<Self> {
        let resource = errors.catch(resource(args.resource, args.resources)).flatten();
        let lock = args.lock.and_then(|arg| errors.catch(not_an_argument(arg.value, function)));
        let source = errors.catch(source(args.pool, args.pools, args.client));
        let skips = args.skip_if_held.is_some();
        let refusal = if args.refusal_unread && args.map_err.is_none() && args.on_reject.is_none() {
            // Its mistake is told already.
            None
        } else {
            errors.catch(refusal(skips, args.map_err, args.on_reject, output))
        };
        let mut settings = args.settings;
        modes(&settings, resource.as_ref(), errors);
        // A function that skips does not queue: it makes one attempt, unless the user says how long to
        // wait.
        if skips && !settings.has("wait") {
            settings.add("wait", Span::call_site(), Value::Time(Time::Millis(0)));
        }
        if !settings.has("label")
            && let Some(template) = resource.as_ref().and_then(Resource::template)
        {
            settings.add("label", Span::call_site(), Value::Template(template));
        }
        Some(Self {
            source: source?,
            resource: resource?,
            settings,
            on_lost: value(args.on_lost).unwrap_or(OnLost::Cancel),
            lock,
            refusal: refusal?,
        })
    }
}

fn value<T>(arg: Option<Arg<T>>) -> Option<T> {
    arg.map(|arg| arg.value)
}

fn resource(
    one: Option<Arg<Resource>>,
    several: Option<Arg<Resource>>,
) -> syn::Result<Option<Resource>> {
    match (one, several) {
        (Some(_), Some(several)) => {
            let told = "`resource` and `resources` both say what to lock: keep one of the two";
            Err(syn::Error::new(several.key.span(), told))
        }
        (one, several) => Ok(value(one.or(several))),
    }
}

fn not_an_argument(lock: Ident, function: &Function) -> syn::Result<Ident> {
    if function.argument_names().contains(&&lock) {
        let told =
            format!("`{lock}` is already an argument of this function: give the lock another name");
        return Err(syn::Error::new(lock.span(), told));
    }
    Ok(lock)
}

/// Refuses what core takes for one holder of one lock only (`Settings::terms`, `op/acquire/reader.rs` and
/// `permit.rs` there), each at the later of two keys.
fn modes(settings: &Settings, resource: Option<&Resource>, errors: &mut Errors) {
    let mut modes = settings.among(&["fenced", "shared", "permits"]);
    if let Some((first, _)) = modes.next() {
        for (second, place) in modes {
            let told = match (first, second) {
                ("fenced", other) | (other, "fenced") => format!(
                    ", since holders beside each other have no order that a token could tell: keep `fenced` for one holder at a time, or `{other}` without a token"
                ),
                _ => ": keep `shared` for any number of readers that keep writers out, or `permits` for a limited number of holders".to_owned(),
            };
            let told = format!("`{first}` and `{second}` exclude each other{told}");
            errors.push(syn::Error::new(place, told));
        }
    }
    if resource.is_some_and(Resource::is_set) {
        for (key, place) in settings.among(&["shared", "permits"]) {
            let told = format!(
                "`{key}` is for one resource, and several are locked by one holder: omit `{key}`, or write one name, `resource = \"account:{{from}}\"`"
            );
            errors.push(syn::Error::new(place, told));
        }
    }
}

fn source(
    pool: Option<Arg<PoolName>>,
    pools: Option<Arg<PoolNames>>,
    client: Option<Arg<Expr>>,
) -> syn::Result<Source> {
    let exclude = |one: &Ident, other: &Ident| {
        let told =
            format!("`{one}` and `{other}` both say which nodes to lock on: keep one of the two");
        Err(syn::Error::new(other.span(), told))
    };
    match (pool, pools, client) {
        (None, None, None) => Ok(Source::DefaultPool),
        (Some(pool), None, None) => Ok(Source::Pool(pool.value)),
        (None, Some(pools), None) => Ok(Source::Pools(pools.value)),
        (None, None, Some(client)) => Ok(Source::Client(client.value)),
        (Some(pool), Some(pools), _) => exclude(&pool.key, &pools.key),
        (Some(pool), None, Some(client)) => exclude(&pool.key, &client.key),
        (None, Some(pools), Some(client)) => exclude(&pools.key, &client.key),
    }
}

fn refusal(
    skips: bool,
    map_err: Option<Arg<Expr>>,
    on_reject: Option<Arg<Expr>>,
    output: &Output,
) -> syn::Result<Refusal> {
    let otherwise = match (map_err, on_reject) {
        (Some(map_err), Some(_)) => {
            let told = "`map_err` and `on_reject` both say what becomes of the error: keep `map_err` for an `Err`, `on_reject` for any other return value";
            return Err(syn::Error::new(map_err.key.span(), told));
        }
        (Some(map_err), None) if !output.is_result => {
            let told = "`map_err` makes the error of a `Result`, which this function does not return: use `on_reject = |error| ..`, which makes the return value";
            let told = format!("{told}{}", about_aliases(output));
            return Err(syn::Error::new(map_err.key.span(), told));
        }
        (Some(map_err), None) => Refusal::MapErr(map_err.value),
        (None, Some(on_reject)) => Refusal::OnReject(on_reject.value),
        (None, None) if output.is_result => Refusal::ErrorFrom,
        (None, None) if skips => return Ok(Refusal::Default),
        (None, None) => {
            let told = "this function cannot say that the lock was refused: return a `Result`, or add `on_reject = |error| ..` to say what to return, or `skip_if_held` to return the default";
            let told = format!("{told}{}", about_aliases(output));
            return Err(syn::Error::new(output.place, told));
        }
    };
    Ok(match (skips, output.is_result) {
        (false, _) => otherwise,
        (true, true) => Refusal::SkipOk(Box::new(otherwise)),
        (true, false) => Refusal::Skip(Box::new(otherwise)),
    })
}

/// What to add when the return type may be a `Result` by another name.
fn about_aliases(output: &Output) -> &'static str {
    if output.is_guessed {
        "; where the name of this future is an alias that adds a `Result`, write the type out: `Pin<Box<dyn Future<Output = Result<..>> + Send>>` or `BoxFuture<'static, Result<..>>`"
    } else if output.is_named {
        "; an alias of `Result` by another name is not recognised: write `Result<..>`, or `on_reject = |error| Err(error.into())`"
    } else {
        ""
    }
}
