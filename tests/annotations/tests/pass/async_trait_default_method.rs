use crate::{AppError, locked, memory};
use redlock_core::redlock;

#[async_trait::async_trait]
trait Job {
    fn name(&self) -> String;

    #[redlock(resource = "job:{self.name()}:{n}", client = memory())]
    async fn run(&self, n: u8) -> Result<String, AppError>
    where
        Self: Sync,
    {
        Ok(locked() + &self.name())
    }
}

#[async_trait::async_trait(?Send)]
trait Local {
    #[redlock(resource = "local:{n}", client = memory())]
    async fn run(&self, n: std::rc::Rc<u8>) -> Result<String, AppError> {
        Ok(locked())
    }
}

struct Report;

impl Job for Report {
    fn name(&self) -> String {
        "report".into()
    }
}

impl Local for Report {}

#[tokio::test]
async fn a_default_method_is_locked_for_every_type() {
    assert_eq!(Job::run(&Report, 1).await.unwrap(), "job:report:1report");
    assert_eq!(Local::run(&Report, 1.into()).await.unwrap(), "local:1");
}
