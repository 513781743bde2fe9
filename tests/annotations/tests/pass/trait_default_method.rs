use crate::{AppError, locked, memory};
use redlock_core::redlock;

trait Job {
    fn name(&self) -> String;

    #[redlock(resource = "job:{self.name()}", client = memory())]
    async fn run(&self, n: u8) -> Result<String, AppError> {
        Ok(format!("{} {n}", locked()))
    }
}

struct Report;

impl Job for Report {
    fn name(&self) -> String {
        "report".into()
    }
}

#[tokio::test]
async fn a_default_method_is_locked_for_every_type() {
    assert_eq!(Report.run(1).await.unwrap(), "job:report 1");
}
