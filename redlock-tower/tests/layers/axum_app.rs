//! The http layer in axum applications.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    error_handling::HandleErrorLayer,
    extract::{Path, Request, State},
    http::{Method, StatusCode, header},
    response::IntoResponse,
    routing::{get, post},
};
use redlock_core::{LockError, LockHandle, Redlock};
use redlock_tower::{BoxError, RedlockLayer, extract, http::LockRejection};
use tokio_stream::StreamExt;
use tower::{ServiceBuilder, ServiceExt};

use crate::support::{Answer, ErrorEvents, freed, held_elsewhere, redlock};

pub(crate) async fn get_answer(app: &Router, uri: &str) -> Answer {
    let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
    Answer::read(app.clone().oneshot(request).await.unwrap()).await
}

/// Answers with the resource of its lock.
pub(crate) async fn resource(lock: Option<LockHandle>) -> String {
    lock.map_or_else(|| "no lock".to_owned(), |lock| lock.resource().to_owned())
}

pub(crate) fn by_id() -> extract::PathParam {
    extract::path_param("id").prefix("order:")
}

#[tokio::test(start_paused = true)]
async fn a_path_parameter_is_a_key_in_route_layer_and_layer() {
    let layer = RedlockLayer::http(redlock(), by_id());
    let router = || Router::new().route("/orders/{id}", get(resource));
    for app in [
        router().route_layer(layer.clone()),
        router().layer(layer.clone()),
        Router::new().route("/orders/{id}", get(resource).layer(layer.clone())),
        Router::new().nest("/{shop}", router().layer(layer.clone())),
        Router::new().nest("/{shop}", router()).layer(layer.clone()),
    ] {
        let shop =
            if get_answer(&app, "/orders/1").await.status == StatusCode::OK { "" } else { "/eu" };
        for (id, resource) in
            [("42", "order:42"), ("%34%32", "order:42"), ("a%20b%2Fc", "order:a b/c")]
        {
            let answer = get_answer(&app, &format!("{shop}/orders/{id}")).await;
            assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, resource));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_lock_is_held_is_refused_and_others_are_served() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "order:42").await;
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock, by_id()).wait(Duration::ZERO));
    assert_eq!(get_answer(&app, "/orders/42").await.status, StatusCode::LOCKED);
    assert_eq!(get_answer(&app, "/orders/43").await.status, StatusCode::OK);
    assert_eq!(get_answer(&app, "/nowhere").await.status, StatusCode::NOT_FOUND);
}

async fn answer_to(app: &Router, method: Method, uri: &str) -> Answer {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    Answer::read(app.clone().oneshot(request).await.unwrap()).await
}

/// The forms that the documentation recommends, and the one that it warns of.
#[tokio::test(start_paused = true)]
async fn requests_that_end_in_405_and_preflights_are_not_locked_in_the_right_form() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "order:42").await;
    let layer = RedlockLayer::http(redlock, by_id()).wait(Duration::ZERO);
    let limited = layer.clone().methods([Method::POST]);
    let preflight = async || StatusCode::NO_CONTENT;
    let routes = || Router::new().route("/orders/{id}", post(resource).options(preflight));
    for (app, refused) in [
        (routes().route_layer(limited.clone()), vec![Method::POST]),
        (routes().layer(limited.clone()), vec![Method::POST]),
        (
            Router::new().route(
                "/orders/{id}",
                post(resource).route_layer(layer.clone()).options(preflight),
            ),
            vec![Method::POST],
        ),
        // All that come, and none.
        (routes().route_layer(layer.clone()), vec![Method::POST, Method::OPTIONS, Method::PUT]),
        (routes().route_layer(layer.clone().methods([])), vec![]),
        // The later call wins.
        (routes().route_layer(limited.clone().methods([Method::PUT])), vec![Method::PUT]),
    ] {
        for (method, unlocked) in [
            (Method::POST, StatusCode::OK),
            (Method::OPTIONS, StatusCode::NO_CONTENT),
            (Method::PUT, StatusCode::METHOD_NOT_ALLOWED),
        ] {
            let expected = if refused.contains(&method) { StatusCode::LOCKED } else { unlocked };
            let answer = answer_to(&app, method.clone(), "/orders/42").await;
            assert_eq!(answer.status, expected, "{method}, where {refused:?} are locked");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_not_locked_needs_no_key_and_finds_no_lock() {
    let events = ErrorEvents::watch();
    let layer = RedlockLayer::http(redlock(), by_id()).methods([Method::POST]);
    let around = RedlockLayer::http(redlock(), |_: &Request| Some("around"));
    // No route of these has the parameter, which would be 500.
    let app = Router::new().route("/orders", get(resource).post(resource)).layer(layer);
    assert_eq!(get_answer(&app, "/orders").await.text, "no lock");
    let answer = answer_to(&app, Method::POST, "/orders").await;
    assert_eq!((answer.status, events.count()), (StatusCode::INTERNAL_SERVER_ERROR, 1));
    assert_eq!(get_answer(&app.layer(around), "/orders").await.text, "no lock");
}

/// A client that sends its body byte by byte keeps its handler running, and the lock with it.
#[tokio::test(start_paused = true)]
async fn max_hold_ends_an_upload_that_trickles() {
    let redlock = redlock();
    let layer = RedlockLayer::http(redlock.clone(), by_id()).max_hold(Duration::from_secs(60));
    let app = Router::new()
        .route("/orders/{id}", post(async |body: String| format!("{} bytes", body.len())))
        .route_layer(layer);
    let upload = async |seconds: usize| {
        let bytes = tokio_stream::iter(0..seconds).then(async |_| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::convert::Infallible>("x")
        });
        let request = Request::post("/orders/42").body(Body::from_stream(bytes)).unwrap();
        Answer::read(app.clone().oneshot(request).await.unwrap()).await
    };
    assert_eq!(upload(50).await.text, "50 bytes");

    let begun = tokio::time::Instant::now();
    let answer = upload(1_000_000).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.problem()["code"], "lost");
    let held = begun.elapsed();
    assert!((Duration::from_secs(59)..Duration::from_secs(61)).contains(&held), "{held:?}");
    freed(&redlock).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_for_a_lock_it_has_not_is_not_run() {
    async fn needs(_: LockHandle) -> &'static str {
        "it ran"
    }
    let events = ErrorEvents::watch();
    let app = Router::new().route("/", get(needs));
    let answer = get_answer(&app, "/").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.text, "Internal Server Error");
    assert_eq!(events.count(), 1);

    let app = Router::new().route("/", get(resource));
    assert_eq!(get_answer(&app, "/").await.text, "no lock");
    assert_eq!(events.count(), 1);

    let app = Router::new()
        .route("/", get(needs))
        .layer(RedlockLayer::http(redlock(), extract::uri_path()));
    assert_eq!(get_answer(&app, "/").await.text, "it ran");
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_the_lock_of_a_layer_that_knows_no_http() {
    async fn needs(lock: LockHandle, same: Option<LockHandle>) -> String {
        assert_eq!(same.unwrap().resource(), lock.resource());
        lock.resource().to_owned()
    }
    let layer = RedlockLayer::new(redlock(), |request: &Request| {
        Some(format!("path:{}", request.uri().path()))
    });
    let refused = async |error: BoxError| (StatusCode::LOCKED, error.to_string());
    let free = RedlockLayer::http(redlock(), |_: &Request| None::<String>);
    let app = Router::new()
        .route("/orders/{id}", get(needs))
        .route("/free", get(async |lock: Option<LockHandle>| format!("{lock:?}")).layer(free))
        .layer(ServiceBuilder::new().layer(HandleErrorLayer::new(refused)).layer(layer));
    assert_eq!(get_answer(&app, "/orders/42").await.text, "path:/orders/42");
    // The lock around it is not the one that its own layer did not take.
    assert_eq!(get_answer(&app, "/free").await.text, "None");
}

/// Which lock a handler finds: the innermost, whether its layer speaks http or not.
#[tokio::test(start_paused = true)]
async fn of_several_layers_the_innermost_lock_is_the_handlers() {
    async fn needs(lock: LockHandle, same: Option<LockHandle>) -> String {
        assert_eq!(same.unwrap().resource(), lock.resource());
        assert_eq!(LockHandle::current().unwrap().resource(), lock.resource());
        lock.resource().to_owned()
    }
    let refused = async |error: BoxError| (StatusCode::LOCKED, error.to_string());
    let redlock = redlock();
    let http =
        |key: Option<&'static str>| RedlockLayer::http(redlock.clone(), move |_: &Request| key);
    let plain = |key: Option<&'static str>| {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(refused))
            .layer(RedlockLayer::new(redlock.clone(), move |_: &Request| key))
    };
    let route = || Router::new().route("/", get(needs));
    for (app, lock) in [
        (route().layer(http(Some("inner"))).layer(http(None)), "inner"),
        (route().layer(plain(Some("inner"))).layer(http(None)), "inner"),
        (route().layer(plain(Some("inner"))).layer(http(Some("outer"))), "inner"),
        (route().layer(http(Some("inner"))).layer(plain(Some("outer"))), "inner"),
        (route().layer(plain(None)).layer(http(Some("outer"))), "outer"),
        (route().layer(plain(None)).layer(plain(Some("outer"))), "outer"),
        // The lock around the middle layer is hidden by it, the one inside is not.
        (
            route().layer(plain(Some("inner"))).layer(http(None)).layer(plain(Some("outer"))),
            "inner",
        ),
        // Also where it joins the lock that is hidden.
        (route().layer(plain(Some("one"))).layer(http(None)).layer(http(Some("one"))), "one"),
        (route().layer(http(Some("one"))).layer(http(None)).layer(plain(Some("one"))), "one"),
    ] {
        let answer = get_answer(&app, "/").await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, lock));
    }
    // The innermost layer has none. The lock around it is of another key.
    let events = ErrorEvents::watch();
    for (count, app) in [
        route().layer(http(None)).layer(http(Some("outer"))),
        route().layer(http(None)).layer(plain(Some("outer"))),
        route().layer(http(None)).layer(http(Some("inner"))).layer(plain(Some("outer"))),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = get_answer(&app, "/").await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(events.count(), count + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_an_error_that_handlers_can_return() {
    async fn pay(
        State(redlock): State<Redlock>,
        Path(id): Path<u64>,
    ) -> Result<String, LockRejection> {
        let lock = redlock.try_lock(format!("order:{id}"));
        Ok(lock.run(async |lock: &LockHandle| lock.resource().to_owned()).await?)
    }
    let redlock = redlock();
    let app = Router::new().route("/orders/{id}", get(pay)).with_state(redlock.clone());
    assert_eq!(get_answer(&app, "/orders/42").await.text, "order:42");

    let _held = held_elsewhere(&redlock, "order:42").await;
    let answer = get_answer(&app, "/orders/42").await;
    assert_eq!(answer.status, StatusCode::LOCKED);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.problem()["code"], "held");
}

#[tokio::test(start_paused = true)]
async fn on_reject_gives_any_axum_response() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "/").await;
    let layer = RedlockLayer::http(redlock, extract::uri_path()).wait(Duration::ZERO).on_reject(
        |error: LockError| {
            assert!(error.is_held());
            (StatusCode::CONFLICT, [(header::RETRY_AFTER, "60")], "busy").into_response()
        },
    );
    let app = Router::new().route("/", get(resource)).layer(layer);
    let answer = get_answer(&app, "/").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(answer.header("retry-after"), Some("60"));
    assert_eq!(answer.text, "busy");
}
