//! The keys that axum finds in a request: path parameters, the whole path, and whatever it extracts.

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, Query, Request},
    http::StatusCode,
    response::IntoResponse,
    routing::get,
};
use redlock_core::{LockError, LockHandle};
use redlock_tower::{RedlockLayer, extract};
use tower::ServiceExt;

use crate::{
    axum_app::{by_id, get_answer, resource},
    support::{Answer, ErrorEvents, redlock},
};

#[tokio::test(start_paused = true)]
async fn a_path_parameter_that_is_no_text_is_the_clients_mistake() {
    let events = ErrorEvents::watch();
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_id()));
    let answer = get_answer(&app, "/orders/%ff").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.problem()["code"], "invalid_key");
    assert_eq!(events.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_path_parameter_that_the_route_has_not_is_the_programs_mistake_unless_optional() {
    let layer = |key| RedlockLayer::http(redlock(), key);
    let routes = || Router::new().route("/orders", get(resource)).route("/{id}/{x}", get(resource));
    let nested = Router::new().nest("/{id}", Router::new().route("/orders/{id}", get(resource)));

    let events = ErrorEvents::watch();
    for (app, uri) in [
        (routes().layer(layer(by_id())), "/orders"),
        // The fallback is inside `Router::layer`.
        (routes().layer(layer(by_id())), "/"),
        // No router at all around the layer: there is no route.
        (Router::new().fallback_service(tower::Layer::layer(&layer(by_id()), get(resource))), "/"),
        (nested.layer(layer(by_id().optional())), "/eu/orders/42"),
    ] {
        let before = events.count();
        let answer = get_answer(&app, uri).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{uri}");
        assert_eq!(events.count(), before + 1, "{uri}");
    }

    let before = events.count();
    let app = routes().layer(layer(by_id().optional()));
    assert_eq!(get_answer(&app, "/orders").await.text, "no lock");
    assert_eq!(get_answer(&app, "/42/x").await.text, "order:42");
    assert_eq!(get_answer(&app, "/").await.status, StatusCode::NOT_FOUND);
    assert_eq!(events.count(), before);
}

#[tokio::test(start_paused = true)]
async fn anything_axum_extracts_can_be_a_key() {
    #[derive(serde::Deserialize)]
    struct Page {
        shop: String,
    }
    let by_query = extract::from_parts::<(Path<u64>, Query<Page>), _>(|(Path(id), Query(page))| {
        (id != 0).then(|| format!("{}:{id}", page.shop))
    });
    let rejected = |_: LockError| -> axum::response::Response { panic!("it is the extractor's") };
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_query.prefix("order:")).on_reject(rejected));

    assert_eq!(get_answer(&app, "/orders/42?shop=eu").await.text, "order:eu:42");
    assert_eq!(get_answer(&app, "/orders/0?shop=eu").await.text, "no lock");
    // What the extractor refuses it answers for itself, as it would in a handler.
    let plain = Router::new().route("/orders/{id}", get(|_: Path<u64>| async {}));
    let (layered, by_hand) =
        (get_answer(&app, "/orders/x?shop=eu").await, get_answer(&plain, "/orders/x").await);
    assert_eq!((layered.status, layered.text), (by_hand.status, by_hand.text));
    assert_eq!(get_answer(&app, "/orders/42").await.status, StatusCode::BAD_REQUEST);
}

/// What the documentation warns of, and its cure.
#[tokio::test(start_paused = true)]
async fn a_key_of_what_was_parsed_is_one_for_all_spellings() {
    let handler = async |Path(id): Path<u64>, lock: LockHandle| format!("{id} {}", lock.resource());
    let parsed = extract::from_parts::<Path<u64>, _>(|Path(id)| Some(id.to_string()));
    let parsed = RedlockLayer::http(redlock(), parsed.prefix("order:"));
    let app = Router::new()
        .route("/parsed/{id}", get(handler).layer(parsed))
        .route("/text/{id}", get(handler).layer(RedlockLayer::http(redlock(), by_id())));
    for id in ["42", "042", "+42", "%34%32"] {
        assert_eq!(get_answer(&app, &format!("/parsed/{id}")).await.text, "42 order:42", "{id}");
    }
    for id in ["42", "042", "+42"] {
        assert_eq!(get_answer(&app, &format!("/text/{id}")).await.text, format!("42 order:{id}"));
    }
    assert_eq!(get_answer(&app, "/parsed/{42}").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_key_can_depend_on_the_state() {
    /// Is not `Clone`.
    struct Tenant(&'static str);
    struct Name(String);

    impl axum::extract::FromRequestParts<Tenant> for Name {
        type Rejection = StatusCode;

        async fn from_request_parts(
            parts: &mut axum::http::request::Parts,
            state: &Tenant,
        ) -> Result<Self, StatusCode> {
            let id = parts.uri.path().strip_prefix("/orders/").ok_or(StatusCode::IM_A_TEAPOT)?;
            if id == "0" { Err(StatusCode::GONE) } else { Ok(Self(format!("{}:{id}", state.0))) }
        }
    }
    let by_name = extract::from_parts_with_state::<Name, _, _>(Tenant("eu"), |name| Some(name.0));
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_name.prefix("order:")));
    assert_eq!(get_answer(&app, "/orders/42").await.text, "order:eu:42");
    assert_eq!(get_answer(&app, "/orders/0").await.status, StatusCode::GONE);
}

#[tokio::test(start_paused = true)]
async fn the_original_path_is_whole_in_a_nested_router() {
    let nested = |key| {
        let layer = RedlockLayer::http(redlock(), key);
        let inner = Router::new().route("/orders/{id}", get(resource)).layer(layer);
        Router::new().nest("/shop", Router::new().nest("/eu", inner))
    };
    let uri = "/shop/eu/orders/%34%32?page=1";
    let original = extract::original_uri_path;
    assert_eq!(get_answer(&nested(original()), uri).await.text, "/shop/eu/orders/42");
    let prefixed = nested(original().prefix("path:"));
    assert_eq!(get_answer(&prefixed, uri).await.text, "path:/shop/eu/orders/42");
    assert_eq!(get_answer(&nested(extract::uri_path()), uri).await.text, "/orders/42");
    let answer = get_answer(&nested(original()), "/shop/eu/orders/%ff").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);

    // Outside of the router, and without any.
    let layer = RedlockLayer::http(redlock(), original());
    let app = Router::new().nest("/shop", Router::new().route("/{id}", get(resource))).layer(layer);
    assert_eq!(get_answer(&app, "/shop/42").await.text, "/shop/42");
    let service = tower::Layer::layer(&RedlockLayer::http(redlock(), original()), get(resource));
    let request = Request::get("/42").body(Body::empty()).unwrap();
    assert_eq!(Answer::read(service.oneshot(request).await.unwrap()).await.text, "/42");
}

#[tokio::test(start_paused = true)]
async fn an_extractor_of_parts_that_fails_by_the_programs_mistake_is_an_event() {
    let events = ErrorEvents::watch();
    // The request has no such extension: axum answers 500.
    let by_extension =
        extract::from_parts::<Extension<u64>, _>(|Extension(id)| Some(id.to_string()));
    let app = Router::new()
        .route("/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_extension));
    assert_eq!(get_answer(&app, "/42").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(events.count(), 1);

    let by_path = extract::from_parts::<Path<u64>, _>(|Path(id)| Some(id.to_string()));
    let app = Router::new()
        .route("/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_path));
    assert_eq!(get_answer(&app, "/x").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(events.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_name_of_a_path_parameter_need_not_live_on() {
    let by_name = |name: &str| extract::path_param(name).prefix("order:");
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), by_name(&String::from("id"))));
    assert_eq!(get_answer(&app, "/orders/42").await.text, "order:42");
}

#[tokio::test(start_paused = true)]
async fn an_empty_key_from_parts_is_refused_before_its_prefix() {
    let empty = extract::from_parts::<Path<String>, _>(|_| Some("")).prefix("order:");
    let app = Router::new()
        .route("/orders/{id}", get(resource))
        .route_layer(RedlockLayer::http(redlock(), empty));
    assert_eq!(get_answer(&app, "/orders/42").await.problem()["code"], "invalid_key");
}

#[tokio::test(start_paused = true)]
async fn control_characters_in_what_axum_finds_are_refused() {
    let layer = |on_reject: bool| {
        let by_path = extract::from_parts::<Path<String>, _>(|Path(id)| Some(id)).prefix("order:");
        let layer = RedlockLayer::http(redlock(), by_path);
        if !on_reject {
            return layer;
        }
        layer.on_reject(|error: LockError| {
            assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
            // What is printed has no line break of the client's.
            assert!(!error.to_string().contains('\n'), "{error}");
            StatusCode::IM_A_TEAPOT.into_response()
        })
    };
    let app = Router::new()
        .route("/parts/{id}", get(resource).layer(layer(false)))
        .route("/param/{id}", get(resource).layer(RedlockLayer::http(redlock(), by_id())))
        .route("/rejected/{id}", get(resource).layer(layer(true)));
    for uri in ["/parts/4%0a2", "/param/4%0a2"] {
        let answer = get_answer(&app, uri).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{uri}");
        assert_eq!(answer.problem()["code"], "invalid_key", "{uri}");
    }
    assert_eq!(get_answer(&app, "/rejected/4%0a2").await.status, StatusCode::IM_A_TEAPOT);
    assert_eq!(get_answer(&app, "/rejected/42").await.text, "order:42");
}
