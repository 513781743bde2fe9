use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::borrow::Cow;

pub(crate) struct Order {
    id: u64,
    name: String,
}

fn key_of(order: &Order) -> String {
    format!("order:{}", order.id)
}

#[redlock(resource = key_of(&order), client = memory())]
async fn function(order: Order) -> Result<String, AppError> {
    let Order { name, .. } = order;
    Ok(name + &locked())
}

#[redlock(resource = &order.name, client = memory())]
async fn borrowed(order: Order) -> Result<(String, String), AppError> {
    Ok((locked(), order.name))
}

const NIGHTLY: &str = "nightly";

#[redlock(resource = NIGHTLY, client = memory())]
async fn constant() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = concat!("a", ":", "b"), client = memory())]
async fn from_a_macro() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = match order.id { 0 => Cow::Borrowed("none"), id => Cow::Owned(id.to_string()) }, client = memory())]
async fn cow(order: &Order) -> Result<String, AppError> {
    Ok(locked())
}

fn tagged(format: &str, id: u64) -> String {
    format.replace("{}", &id.to_string())
}

#[redlock(resource = tagged("order:{}", id), client = memory())]
async fn braces_for_a_function(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "order:{}".replace("{}", &id.to_string()), client = memory())]
async fn braces_that_a_method_replaces(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "{order}".trim_start_matches('{').strip_suffix('}').unwrap(), client = memory())]
async fn braces_that_methods_cut() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = format!("{{order}}:{id}"), client = memory())]
async fn braces_for_a_macro(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

/// A pattern, or a template of another crate.
struct Pattern(&'static str);

impl Pattern {
    fn new(pattern: &'static str) -> Self {
        Self(pattern)
    }

    fn fill(&self, id: u64) -> String {
        self.0.replace("{4}", &id.to_string())
    }
}

#[redlock(resource = Pattern::new(r"\d{4}").fill(id), client = memory())]
async fn braces_for_a_type(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = (kind == "{").to_string(), client = memory())]
async fn braces_that_are_compared(kind: &str) -> Result<String, AppError> {
    Ok(locked())
}

const BRACES: &str = "order:{id}";

#[redlock(resource = BRACES, client = memory())]
async fn braces_in_a_constant() -> Result<String, AppError> {
    Ok(locked())
}

#[tokio::test]
async fn braces_mean_what_the_expression_makes_of_them() {
    assert_eq!(braces_for_a_function(1).await.unwrap(), "order:1");
    assert_eq!(braces_that_a_method_replaces(1).await.unwrap(), "order:1");
    assert_eq!(braces_that_methods_cut().await.unwrap(), "order");
    assert_eq!(braces_for_a_macro(1).await.unwrap(), "{order}:1");
    assert_eq!(braces_for_a_type(1).await.unwrap(), r"\d1");
    assert_eq!(braces_that_are_compared("{").await.unwrap(), "true");
    assert_eq!(braces_in_a_constant().await.unwrap(), "order:{id}");
}

#[tokio::test]
async fn an_expression_gives_the_key() {
    let order = |id| Order { id, name: "n".into() };
    assert_eq!(function(order(1)).await.unwrap(), "norder:1");
    assert_eq!(borrowed(order(1)).await.unwrap(), ("n".to_owned(), "n".to_owned()));
    assert_eq!(constant().await.unwrap(), "nightly");
    assert_eq!(from_a_macro().await.unwrap(), "a:b");
    assert_eq!(cow(&order(0)).await.unwrap(), "none");
    assert_eq!(cow(&order(3)).await.unwrap(), "3");
}
