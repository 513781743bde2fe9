use crate::{AppError, locked, memory};
use redlock_core::redlock;
use std::fmt::Display;

#[redlock(resource = "{id}", client = memory())]
async fn in_a_result(id: u8) -> Result<impl Display + use<>, AppError> {
    if id > 100 {
        return Ok(String::from("many"));
    }
    Ok(locked())
}

#[redlock(resource = "{id}", client = memory(), on_reject = |error| format!("refused: {error}"))]
async fn alone(id: u8) -> impl Display {
    locked()
}

#[redlock(resource = "{id}", client = memory())]
async fn closures(id: u8) -> Result<(impl Fn(u8) -> u8, Vec<impl Display>), AppError> {
    Ok((move |n| n + id, vec![locked()]))
}

/// For any lifetime: as an `impl Fn` that type would be unknown in the body.
#[redlock(resource = "{id}", client = memory())]
async fn boxed_closure(id: u8) -> Result<Box<dyn Fn(&str) -> &str>, AppError> {
    Ok(Box::new(|text| text))
}

#[tokio::test]
async fn the_hidden_type_is_the_bodys() {
    assert_eq!(in_a_result(1).await.unwrap().to_string(), "1");
    assert_eq!(in_a_result(101).await.unwrap().to_string(), "many");
    assert_eq!(alone(2).await.to_string(), "2");
    assert_eq!(boxed_closure(3).await.unwrap()("text"), "text");
    let (add, names) = closures(3).await.unwrap();
    assert_eq!((add(1), names[0].to_string().as_str()), (4, "3"));
}
