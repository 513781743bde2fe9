use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Invoice,
}

#[redlock(resource = "{id:06}:{id:#x}:{kind:?}:{name:>width$}:{name:*^7}", client = memory())]
async fn padded(id: u32, kind: Kind, name: &str, width: usize) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "{Kind::Invoice:?}:{price:.2}:{price:.digits$}", client = memory())]
async fn paths_have_no_spec(price: f64, digits: usize) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "{id:\">5}:{id:}>5}:{id:{>5}:{id:'^5}", client = memory())]
async fn anything_fills(id: u64) -> Result<String, AppError> {
    Ok(locked())
}

#[tokio::test]
async fn a_spec_writes_as_it_does_in_format() {
    assert_eq!(
        padded(42, Kind::Invoice, "ada", 5).await.unwrap(),
        "000042:0x2a:Invoice:  ada:**ada**"
    );
    assert_eq!(paths_have_no_spec(1.5, 1).await.unwrap(), "Invoice:1.50:1.5");
    assert_eq!(anything_fills(7).await.unwrap(), "\"\"\"\"7:}}}}7:{{{{7:''7''");
}
