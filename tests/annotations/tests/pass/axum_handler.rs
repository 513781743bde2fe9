use crate::{AppError, locked, memory};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, State},
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use redlock_core::{Redlock, redlock};
use tower::ServiceExt;

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Locked(_) => StatusCode::LOCKED.into_response(),
            Self::Other(text) => text.into_response(),
        }
    }
}

#[redlock(resource = "order:{id}", client = locks, wait = 0)]
pub(crate) async fn show(
    State(locks): State<Redlock>,
    Path(id): Path<u64>,
) -> Result<impl IntoResponse, AppError> {
    Ok((StatusCode::CREATED, locked()))
}

#[redlock(resource = "all", client = locks, on_reject = |_| StatusCode::LOCKED.into_response())]
async fn all(locks: State<Redlock>) -> Response {
    locked().into_response()
}

async fn status_and_text(router: Router, uri: &str) -> (StatusCode, String) {
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(text.to_vec()).unwrap())
}

#[tokio::test]
async fn a_handler_sees_its_extractors_and_answers_refusals() {
    let locks = memory();
    let router = Router::new()
        .route("/order/{id}", get(show))
        .route("/all", get(all))
        .with_state(locks.clone());
    assert_eq!(
        status_and_text(router.clone(), "/order/7").await,
        (StatusCode::CREATED, "order:7".to_owned())
    );
    assert_eq!(status_and_text(router.clone(), "/all").await, (StatusCode::OK, "all".to_owned()));
    let _guard = locks.lock("order:7").await.unwrap();
    assert_eq!(status_and_text(router, "/order/7").await.0, StatusCode::LOCKED);
}
