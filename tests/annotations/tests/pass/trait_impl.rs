use crate::{AppError, locked, memory};
use redlock_core::redlock;

trait Payments {
    type Receipt;
    async fn pay(&mut self, id: u64) -> Result<Self::Receipt, AppError>;
    fn refund(&self, id: u64) -> impl Future<Output = Result<String, AppError>> + Send;
}

struct Bank {
    branch: u8,
    paid: Vec<u64>,
}

impl Payments for Bank {
    type Receipt = (String, usize);

    #[redlock(resource = "bank:{self.branch}:{id}", client = memory())]
    async fn pay(&mut self, id: u64) -> Result<Self::Receipt, AppError> {
        self.paid.push(id);
        Ok((locked(), self.paid.len()))
    }

    #[redlock(resource = "bank:{self.branch}:{id}", client = memory())]
    async fn refund(&self, id: u64) -> Result<String, AppError> {
        Ok(format!("{} {}", locked(), self.paid.contains(&id)))
    }
}

#[tokio::test]
async fn methods_of_a_trait_are_locked() {
    let mut bank = Bank { branch: 2, paid: vec![] };
    assert_eq!(bank.pay(5).await.unwrap(), ("bank:2:5".to_owned(), 1));
    assert_eq!(bank.refund(5).await.unwrap(), "bank:2:5 true");
}
