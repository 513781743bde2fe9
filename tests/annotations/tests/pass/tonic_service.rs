use crate::{locked, memory};
use redlock_core::{LockError, Redlock, redlock};
use tonic::{Code, Request, Response, Status};

#[tonic::async_trait]
trait Orders: Send + Sync + 'static {
    async fn pay(&self, request: Request<u64>) -> Result<Response<String>, Status>;
    async fn refund(&self, request: Request<u64>) -> Result<Response<String>, Status>;
}

fn status(error: LockError) -> Status {
    if error.is_held() {
        Status::aborted(error.to_string())
    } else {
        Status::unavailable(error.to_string())
    }
}

struct Service {
    locks: Redlock,
}

#[tonic::async_trait]
impl Orders for Service {
    #[redlock(resource = "order:{request.get_ref()}", client = self.locks, wait = 0, map_err = status)]
    async fn pay(&self, request: Request<u64>) -> Result<Response<String>, Status> {
        let id = request.into_inner();
        Ok(Response::new(format!("{} {id}", locked())))
    }

    #[redlock(
        resource = "order:{request.get_ref()}",
        client = self.locks,
        map_err = |error| Status::internal(error.to_string())
    )]
    async fn refund(&self, request: Request<u64>) -> Result<Response<String>, Status> {
        Err(Status::not_found(format!("{} {}", locked(), request.into_inner())))
    }
}

#[tokio::test]
async fn a_service_method_answers_refusals_as_a_status() {
    let service = Service { locks: memory() };
    let paid = service.pay(Request::new(7)).await.unwrap();
    assert_eq!(paid.into_inner(), "order:7 7");
    let refused = service.refund(Request::new(7)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::NotFound, "order:7 7"));
    let _guard = service.locks.lock("order:7").await.unwrap();
    assert_eq!(service.pay(Request::new(7)).await.unwrap_err().code(), Code::Aborted);
}
