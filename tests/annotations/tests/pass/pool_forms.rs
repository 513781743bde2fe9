use crate::{AppError, locked, memory};
use redlock_core::{LockError, pools, redlock};

#[redlock(resource = "a")]
async fn the_default() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", pool = "pool-forms-1")]
async fn literal() -> Result<String, AppError> {
    Ok(locked())
}

const POOL: &str = "pool-forms-1";

#[redlock(resource = "a", pool = POOL)]
async fn constant() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", pool = format!("pool-forms-{n}"))]
async fn formatted(n: u8) -> Result<String, AppError> {
    Ok(locked())
}

pub(crate) struct Tenant {
    pool: String,
}

impl Tenant {
    #[redlock(resource = "a", pool = self.pool)]
    async fn field(&self) -> Result<String, AppError> {
        Ok(locked())
    }
}

#[redlock(resource = "a", pools = ["pool-forms-1", "pool-forms-2", "pool-forms-3"])]
async fn several(votes: usize) -> Result<usize, AppError> {
    Ok(votes)
}

#[redlock(resource = "a", pools = names)]
async fn several_names(names: &[String]) -> Result<usize, AppError> {
    Ok(names.len())
}

#[tokio::test]
async fn pools_are_found_by_name_at_the_call() {
    for n in 1..=3 {
        pools::install(format!("pool-forms-{n}"), memory()).unwrap();
    }
    assert_eq!(literal().await.unwrap(), "a");
    assert_eq!(constant().await.unwrap(), "a");
    assert_eq!(formatted(2).await.unwrap(), "a");
    assert_eq!(Tenant { pool: "pool-forms-3".into() }.field().await.unwrap(), "a");
    assert_eq!(several(1).await.unwrap(), 1);
    let names = [1, 2].map(|n| format!("pool-forms-{n}"));
    assert_eq!(several_names(&names).await.unwrap(), 2);
    assert!(matches!(
        formatted(4).await,
        Err(AppError::Locked(LockError::UnknownPool { pool, .. })) if pool == "pool-forms-4"
    ));
    // No default pool is installed in this binary.
    assert!(matches!(
        the_default().await,
        Err(AppError::Locked(LockError::UnknownPool { pool, .. })) if pool == "default"
    ));
}
