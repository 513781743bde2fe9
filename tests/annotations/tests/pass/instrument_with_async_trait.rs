use crate::{AppError, argument_patterns::Path, locked, memory};
use redlock_core::redlock;

#[async_trait::async_trait]
trait Orders {
    async fn above(&self, id: u64) -> Result<String, AppError>;
    async fn above_pattern(&mut self, id: Path<u64>) -> Result<String, AppError>;
    async fn above_unit(&self, runs: &mut u8);
    async fn below(&self, id: Path<u64>) -> Result<String, AppError>;
}

#[derive(Debug)]
struct Shop {
    id: u8,
}

#[async_trait::async_trait]
impl Orders for Shop {
    #[tracing::instrument(err)]
    #[redlock(resource = "order:{self.id}:{id}", client = memory())]
    async fn above(&self, id: u64) -> Result<String, AppError> {
        Ok(format!("{} {}", locked(), self.id))
    }

    #[tracing::instrument(skip_all, ret)]
    #[redlock(resource = "order:{self.id}:{id}", client = memory())]
    async fn above_pattern(&mut self, Path(id): Path<u64>) -> Result<String, AppError> {
        self.id += 1;
        Ok(format!("{} {}", locked(), self.id))
    }

    #[tracing::instrument]
    #[redlock(resource = "order:{self.id}", client = memory(), on_reject = |_| ())]
    async fn above_unit(&self, runs: &mut u8) {
        assert_eq!(locked(), "order:4");
        *runs += 1;
    }

    #[redlock(resource = "order:{self.id}:{id}", client = memory())]
    #[tracing::instrument(skip_all)]
    async fn below(&self, Path(id): Path<u64>) -> Result<String, AppError> {
        Ok(format!("{} {}", locked(), self.id))
    }
}

#[async_trait::async_trait]
trait Counts {
    async fn count(id: Path<u64>);
}

#[async_trait::async_trait]
impl Counts for Shop {
    #[tracing::instrument(skip_all)]
    #[redlock(resource = "order:{id}", client = memory(), skip_if_held)]
    async fn count(Path(id): Path<u64>) {
        assert_eq!(locked(), format!("order:{id}"));
    }
}

#[tokio::test]
async fn all_three_go_together() {
    assert_eq!(Shop { id: 4 }.above(1).await.unwrap(), "order:4:1 4");
    assert_eq!(Shop { id: 4 }.above_pattern(Path(1)).await.unwrap(), "order:4:1 5");
    let mut runs = 0;
    Shop { id: 4 }.above_unit(&mut runs).await;
    assert_eq!(runs, 1);
    Shop::count(Path(2)).await;
    assert_eq!(Shop { id: 4 }.below(Path(1)).await.unwrap(), "order:4:1 4");
}
