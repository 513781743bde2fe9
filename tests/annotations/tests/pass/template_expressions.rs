use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::collections::HashMap;

pub(crate) struct Item {
    pub(crate) warehouse: &'static str,
    pub(crate) parts: Vec<u32>,
}

impl Item {
    fn shelf(&self, row: u32) -> String {
        format!("shelf{row}")
    }
}

const REGION: &str = "eu";

#[redlock(
    resource = "{REGION}:{item.warehouse}:{item.parts[1]}:{item.shelf(n + 1)}:{u8::MAX}:{{n}}",
    client = memory()
)]
async fn fields_methods_indexing(item: &Item, n: u32) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(
    resource = r#"{map["a:b"]}:{map.get("}").copied().unwrap_or_default()}:{if n > 1 { 'x' } else { ':' }}"#,
    client = memory()
)]
async fn quotes_and_braces(map: HashMap<&str, u8>, n: u8) -> Result<String, AppError> {
    drop(map);
    Ok(locked())
}

#[redlock(resource = "{tuple.0}/{tuple.1 .0}/{*number}", client = memory())]
async fn tuples_and_dereferences(
    tuple: (u8, (u8, u8)),
    number: Box<u8>,
) -> Result<String, AppError> {
    Ok(format!("{} {}", locked(), tuple.1.1 + *number))
}

#[rustfmt::skip]
#[redlock(resource = ("order:{id}"), ttl = (30_000), client = memory())]
async fn in_parentheses(id: u8) -> Result<String, AppError> {
    Ok(format!("{} {id}", locked()))
}

#[redlock(resource = { "order:{id + 1}" }, ttl = { "30s" }, client = memory())]
async fn in_a_block(id: u8) -> Result<String, AppError> {
    Ok(format!("{} {id}", locked()))
}

#[tokio::test]
async fn brackets_around_a_literal_change_nothing() {
    assert_eq!(in_parentheses(1).await.unwrap(), "order:1 1");
    assert_eq!(in_a_block(1).await.unwrap(), "order:2 1");
}

async fn found(id: u8) -> u8 {
    tokio::task::yield_now().await;
    id
}

#[redlock(resource = "order:{found(id).await}:{[id].map(|id| id + 1)[0]}", client = memory())]
async fn awaits(id: u8) -> Result<String, AppError> {
    Ok(format!("{} {id}", locked()))
}

macro_rules! redlock_template {
    () => {
        "of the user"
    };
}

#[redlock(
    resource = r##"{redlock_template!()}:{cr"\".to_str().unwrap_or("}")}"##,
    client = memory()
)]
async fn of_the_user() -> Result<String, AppError> {
    Ok(locked())
}

#[tokio::test]
async fn a_hole_has_the_macros_and_the_raw_texts_of_its_author() {
    assert_eq!(of_the_user().await.unwrap(), r"of the user:\");
}

#[redlock(resource = "{r#type}:{r#type:03}", client = memory())]
async fn raw_name(r#type: u8) -> Result<String, AppError> {
    Ok(format!("{} {type}", locked()))
}

#[tokio::test]
async fn a_hole_names_a_keyword_as_rust_does() {
    assert_eq!(raw_name(7).await.unwrap(), "7:007 7");
}

#[tokio::test]
async fn a_hole_may_await() {
    let key = tokio::spawn(awaits(1)).await.unwrap().unwrap();
    assert_eq!(key, "order:1:2 1");
}

#[tokio::test]
async fn any_expression_goes_into_the_key() {
    let item = Item { warehouse: "north", parts: vec![1, 2] };
    assert_eq!(fields_methods_indexing(&item, 3).await.unwrap(), "eu:north:2:shelf4:255:{n}");
    let map = HashMap::from([("a:b", 7)]);
    assert_eq!(quotes_and_braces(map, 2).await.unwrap(), "7:0:x");
    assert_eq!(tuples_and_dereferences((1, (2, 3)), Box::new(4)).await.unwrap(), "1/2/4 7");
}
