//! The expansion of `#[redlock]`: one request, one answer to a refusal, one call.
//!
//! The attribute stays thin. Everything that depends on types is a trait here, so that rustc,
//! which knows the types, tells the user what is missing.

use std::future::Future;

use crate::{
    LockError, LockHandle, LockOptions, LockRequest, Redlock,
    body::{OnLost, Run},
    pools,
    resources::Resources,
    telemetry,
};

pub use crate::body::{Refusal, Running as Locked};
pub use std::{format, time::Duration};

/// A lock that is about to be asked for.
#[derive(Debug)]
pub struct Call(Box<Run>);

// What the expressions of an attribute give, without what they have borrowed on their way.

/// The client that the program named.
#[must_use]
pub fn client(client: &Redlock) -> Redlock {
    client.clone()
}

/// The name of an installed pool.
pub fn pool(name: impl AsRef<str>) -> String {
    name.as_ref().to_owned()
}

/// The names of several installed pools.
pub fn pools<I>(names: I) -> Vec<String>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    names.into_iter().map(pool).collect()
}

/// What to lock.
pub fn resource(resource: impl IntoResource) -> Locks {
    resource.into_resource()
}

/// A template whose holes were filled one by one.
#[must_use]
pub fn joined<const N: usize>(parts: [String; N]) -> String {
    parts.concat()
}

/// A lock on a client the program named.
pub fn of_client(client: &Redlock, resource: impl IntoResource, options: &LockOptions) -> Call {
    call(client, resource.into_resource().0, options)
}

/// A lock on an installed pool.
pub fn of_pool(name: impl AsRef<str>, resource: impl IntoResource, options: &LockOptions) -> Call {
    call_pool(name.as_ref(), resource.into_resource().0, options)
}

/// A lock on all nodes of several installed pools.
pub fn of_pools<I>(names: I, resource: impl IntoResource, options: &LockOptions) -> Call
where
    I: IntoIterator<Item: AsRef<str>>,
{
    let resources = resource.into_resource().0;
    let names = pools(names);
    // One pool is its own client: a body inside joins the hold of that client.
    if let [name] = &names[..] {
        return call_pool(name, resources, options);
    }
    match pools::quorum_of(names) {
        Ok(client) => call(&client, resources, options),
        Err(error) => refused(&resources, options, error),
    }
}

// The code below has no types of the user's, so it is compiled once.

fn call_pool(name: &str, resources: Resources, options: &LockOptions) -> Call {
    match pools::require(name) {
        Ok(client) => call(&client, resources, options),
        Err(error) => refused(&resources, options, error),
    }
}

fn refused(resources: &Resources, options: &LockOptions, error: LockError) -> Call {
    Call(Run::refused(resources.name(), options.label.unwrap_or_default(), error))
}

fn call(client: &Redlock, resources: Resources, options: &LockOptions) -> Call {
    Call(Run::asking(LockRequest::new(client.client(), resources, options.clone()).for_body()))
}

/// The lock of the body that calls it: what `lock` names.
#[must_use]
pub fn lock() -> LockHandle {
    match LockHandle::current() {
        Some(lock) => lock,
        None => unreachable!("a body is polled under its lock"),
    }
}

/// Locks, runs the body and releases. `refusal` answers every error.
///
/// Not inlined: the compiler copies the function that calls this to wherever its future is polled.
#[inline(never)]
pub fn run<R, S, F>(call: Call, refusal: Refusal<S, R>, on_lost: OnLost, body: F) -> Locked<S, R, F>
where
    F: Future<Output = R>,
{
    Locked::new(call.0, refusal, on_lost, body)
}

/// The types that can name the resource of a lock.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the resource of a lock",
    label = "this is a `{Self}`",
    note = "`resource` is a template, `resource = \"order:{{order_id}}\"`, or an expression that gives a `String` or a `&str`"
)]
pub trait IntoResource {
    /// The resource, owned.
    fn into_resource(self) -> Locks;
}

/// What a call locks.
#[derive(Debug)]
pub struct Locks(Resources);

// Without this attribute, rustc would name the missing `From` and say nothing of templates.
#[diagnostic::do_not_recommend]
impl<T: Into<String>> IntoResource for T {
    fn into_resource(self) -> Locks {
        Locks(Resources::One(self.into()))
    }
}

#[diagnostic::do_not_recommend]
impl IntoResource for Locks {
    fn into_resource(self) -> Locks {
        self
    }
}

/// The name of one resource of a set.
pub fn name(resource: impl IntoResource) -> String {
    match resource.into_resource().0 {
        Resources::One(resource) => resource,
        set => set.first().to_owned(),
    }
}

/// All of these resources, or none.
pub fn all<I>(resources: I) -> Locks
where
    I: IntoIterator<Item: Into<String>>,
{
    Locks(Resources::all(resources))
}

/// A setting that is a duration.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Duration`: only a literal is milliseconds",
    label = "expected a `Duration`",
    note = "write `Duration::from_millis(..)` around a number that is milliseconds"
)]
pub trait IsDuration {
    /// The duration.
    fn duration(self) -> Duration;
}

impl IsDuration for Duration {
    fn duration(self) -> Duration {
        self
    }
}

/// A setting that is a duration and whose type its expression alone says.
#[inline]
pub fn duration(given: impl IsDuration) -> Duration {
    given.duration()
}

/// `Result<T, E>`, under whatever name.
#[diagnostic::on_unimplemented(
    message = "`#[redlock]` takes this for a `Result`, but it is `{Self}`",
    label = "not `core::result::Result`",
    note = "call the type something else than `Result`, and say what to return when the lock is refused: `on_reject = |error| ..`"
)]
pub trait AnyResult {
    /// The success type.
    type Value;
    /// The error type.
    type Error;
    /// `Ok`.
    fn ok(value: Self::Value) -> Self;
    /// `Err`.
    fn err(error: Self::Error) -> Self;
}

impl<T, E> AnyResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn ok(value: T) -> Self {
        Ok(value)
    }

    fn err(error: E) -> Self {
        Err(error)
    }
}

/// An error type that can say that the lock was refused: anything `From<LockError>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that the lock was refused: it is not `From<LockError>`",
    label = "the error of this function",
    note = "implement `From<redlock_core::LockError>` for `{Self}`, or give the attribute a function: `map_err = |error| ..`"
)]
pub trait FromLockError {
    /// The conversion.
    fn from_lock_error(error: LockError) -> Self;
}

// Without this attribute, rustc would name the missing `From` and say nothing of `map_err`.
#[diagnostic::do_not_recommend]
impl<E: From<LockError>> FromLockError for E {
    fn from_lock_error(error: LockError) -> Self {
        error.into()
    }
}

/// The types that `skip_if_held` can return when there was nothing to do.
#[diagnostic::on_unimplemented(
    message = "`skip_if_held` has nothing to return: `{Self}` is not `Default`",
    label = "returned when the lock is held elsewhere",
    note = "implement `Default` for `{Self}`, or omit `skip_if_held` and look at the error: `on_reject = |error| ..`"
)]
pub trait Skipped {
    /// The value of a call that was skipped.
    fn skipped() -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Default> Skipped for T {
    fn skipped() -> Self {
        T::default()
    }
}

/// `Err(error.into())`.
pub fn error_from<R>() -> Refusal<(), R>
where
    R: AnyResult<Error: FromLockError>,
{
    Refusal::new((), |(), error| R::err(R::Error::from_lock_error(error)))
}

/// The functions that `map_err` accepts.
#[diagnostic::on_unimplemented(
    message = "`map_err` is a function from `LockError` to `{E}`, not `{Self}`",
    label = "not a function from `LockError` to `{E}`",
    note = "write `map_err = |error| ..`, or the name of such a function"
)]
pub trait ErrorFunction<E>: FnOnce(LockError) -> E {}

#[diagnostic::do_not_recommend]
impl<E, F: FnOnce(LockError) -> E> ErrorFunction<E> for F {}

/// `Err(f(error))`: `map_err`.
pub fn map_err<R, F>(f: F) -> Refusal<F, R>
where
    R: AnyResult,
    F: ErrorFunction<R::Error>,
{
    Refusal::new(f, |f, error| R::err(f(error)))
}

/// The functions that `on_reject` accepts.
#[diagnostic::on_unimplemented(
    message = "`on_reject` is a function from `LockError` to `{R}`, not `{Self}`",
    label = "not a function from `LockError` to `{R}`",
    note = "write `on_reject = |error| ..`, or the name of such a function"
)]
pub trait RejectFunction<R>: FnOnce(LockError) -> R {}

#[diagnostic::do_not_recommend]
impl<R, F: FnOnce(LockError) -> R> RejectFunction<R> for F {}

/// `f(error)`: `on_reject`.
pub fn on_reject<R, F: RejectFunction<R>>(f: F) -> Refusal<F, R> {
    Refusal::new(f, |f, error| f(error))
}

/// `Ok(Default::default())` when held elsewhere, else as `otherwise`: `skip_if_held`.
pub fn skip_ok<R, S>(otherwise: Refusal<S, R>) -> Refusal<Refusal<S, R>, R>
where
    R: AnyResult<Value: Skipped>,
{
    Refusal::new(otherwise, |otherwise, error| {
        if error.is_held() { R::ok(R::Value::skipped()) } else { otherwise.answer(error) }
    })
}

/// `Default::default()` when held elsewhere, else as `otherwise`: `skip_if_held` without a
/// `Result`.
pub fn skip<R: Skipped, S>(otherwise: Refusal<S, R>) -> Refusal<Refusal<S, R>, R> {
    Refusal::new(
        otherwise,
        |otherwise, error| {
            if error.is_held() { R::skipped() } else { otherwise.answer(error) }
        },
    )
}

/// `Default::default()`. Except for a lock that is held elsewhere there is an event: the return
/// value cannot tell what happened, so the log must.
pub fn default_and_log<R: Skipped>() -> Refusal<(), R> {
    Refusal::new((), |(), error| {
        if !error.is_held() {
            telemetry::defaulted(&error);
        }
        R::skipped()
    })
}
