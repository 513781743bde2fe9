use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[redlock(resource = "{name}", client = memory())]
async fn named<'a, 'b: 'a>(name: &'a str, other: &'b str) -> Result<&'a str, AppError> {
    Ok(if locked() == name { name } else { other })
}

#[redlock(resource = "{text}", client = memory())]
async fn elided(text: &str) -> Result<&str, AppError> {
    Ok(&text[1..])
}

pub(crate) struct View<'a>(&'a str);

impl<'a> View<'a> {
    #[redlock(resource = "{self.0}", client = memory())]
    async fn inner(&self) -> Result<&'a str, AppError> {
        Ok(self.0)
    }

    #[redlock(resource = "{self.0}", client = memory())]
    async fn boxed(&self) -> Result<Box<dyn Iterator<Item = char> + '_>, AppError> {
        Ok(Box::new(self.0.chars()))
    }
}

#[tokio::test]
async fn borrows_outlive_the_lock() {
    assert_eq!(named("a", "b").await.unwrap(), "a");
    assert_eq!(elided("abc").await.unwrap(), "bc");
    let text = String::from("xy");
    let inner = View(&text).inner().await.unwrap();
    assert_eq!(inner, "xy");
    assert_eq!(View(inner).boxed().await.unwrap().count(), 2);
}
