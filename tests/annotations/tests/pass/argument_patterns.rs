use crate::{AppError, locked, memory};
use redlock_core::redlock;

pub(crate) struct Path<T>(pub(crate) T);
pub(crate) struct Order {
    id: u64,
    customer: Customer,
    note: String,
}
pub(crate) struct Customer {
    name: String,
}

#[redlock(resource = "order:{id}", client = memory())]
async fn tuple_struct(Path(id): Path<u64>) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "{a}:{b}:{first}:{rest:?}", client = memory())]
async fn tuples_and_slices(
    (a, (b, _)): (u8, (u8, u8)),
    [first, rest @ ..]: [u8; 3],
    _: bool,
) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "{id}:{name}", client = memory())]
async fn structs(
    Order { id, customer: Customer { name }, mut note }: Order,
    &extra: &u8,
) -> Result<String, AppError> {
    note.push('!');
    Ok(format!("{} {note} {name} {extra}", locked()))
}

#[allow(clippy::toplevel_ref_arg)]
#[redlock(resource = "{whole:?}", client = memory())]
async fn bound(whole @ (a, mut b): (u8, u8), ref kept: String) -> Result<(u8, usize), AppError> {
    b += 1;
    assert_eq!(locked(), format!("{whole:?}"));
    Ok((a + b, kept.len()))
}

#[redlock(resource = "order:{id}", client = memory())]
async fn mutable(mut id: u64, mut names: Vec<String>) -> Result<(u64, Vec<String>), AppError> {
    id += 1;
    names.push(locked());
    Ok((id, names))
}

#[tokio::test]
async fn what_the_patterns_bind_is_there_for_the_key_and_the_body() {
    assert_eq!(tuple_struct(Path(9)).await.unwrap(), "order:9");
    assert_eq!(tuples_and_slices((1, (2, 3)), [4, 5, 6], true).await.unwrap(), "1:2:4:[5, 6]");
    let order = Order { id: 8, customer: Customer { name: "ada".into() }, note: "n".into() };
    assert_eq!(structs(order, &7).await.unwrap(), "8:ada n! ada 7");
    assert_eq!(bound((1, 2), "abc".into()).await.unwrap(), (4, 3));
    assert_eq!(mutable(1, vec![]).await.unwrap(), (2, vec!["order:1".to_owned()]));
}
