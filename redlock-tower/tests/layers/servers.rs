//! The http layer behind a real server, which drops what it has no use for.

use std::{future::pending, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{StatusCode, header},
    routing::{get, post},
};
use redlock_tower::{RedlockLayer, extract};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_stream::StreamExt;

use crate::{
    axum_app::by_id,
    support::{Witness, eventually, freed},
};

/// A real server on a free port of this machine.
async fn serve(app: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The server looks for the end of a connection once it has read the request, and the handler reads its body.
#[tokio::test]
async fn a_client_that_goes_away_frees_the_lock() {
    for request in [
        "POST /orders/42 HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n",
        "POST /orders/42 HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n4\r\nlamp\r\n0\r\n\r\n",
    ] {
        let redlock = crate::support::patient();
        let witness = Witness::of(&redlock);
        let started = witness.clone();
        let stuck = async move |_body: String| {
            let _running = started.start();
            pending::<()>().await;
        };
        let address = serve(
            Router::new()
                .route("/orders/{id}", post(stuck))
                .route_layer(RedlockLayer::http(redlock.clone(), by_id())),
        )
        .await;

        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        eventually("the handler runs", || witness.started() == 1).await;
        drop(client);
        freed(&redlock).await;
        witness.assert_dropped_under_its_lock();
    }
}

/// The server drops the body of such an answer, and the client has all of the answer with its head.
#[tokio::test]
async fn an_answer_whose_body_is_not_sent_comes_after_the_release() {
    let with = |status: StatusCode| async move || (status, "not for HEAD");
    for (method, path) in [("HEAD", "/ok"), ("GET", "/204"), ("GET", "/304")] {
        let redlock = crate::support::patient();
        let layer = RedlockLayer::http(redlock.clone(), extract::uri_path()).hold_until_body_end();
        let app = Router::new()
            .route("/ok", get(with(StatusCode::OK)))
            .route("/204", get(with(StatusCode::NO_CONTENT)))
            .route("/304", get(with(StatusCode::NOT_MODIFIED)))
            .route_layer(layer);
        for node in redlock.memory_nodes() {
            node.slow(Duration::from_millis(50));
        }
        let mut client = TcpStream::connect(serve(app).await).await.unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\r\n\r\n"), "{answer:?}");
        assert!(crate::support::is_free(&redlock), "{method} {path}");
    }
}

#[tokio::test]
async fn a_streamed_response_keeps_the_lock_until_it_is_sent() {
    let redlock = crate::support::patient();
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Result<&str, std::io::Error>>();
    let stream = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver);
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(Body::from_stream(stream))));
    let layer = RedlockLayer::http(redlock.clone(), by_id()).hold_until_body_end();
    let address = serve(
        Router::new()
            .route("/orders/{id}", get(async move || body.lock().unwrap().take().unwrap()))
            .route_layer(layer),
    )
    .await;

    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "GET /orders/42 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    sender.send(Ok("one")).unwrap();
    let mut seen = String::new();
    while !seen.contains("one") {
        let mut buffer = [0; 1024];
        let read = client.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "it ended after {seen:?}");
        seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    assert!(!crate::support::is_free(&redlock));

    sender.send(Ok("two")).unwrap();
    drop(sender);
    client.read_to_string(&mut seen).await.unwrap();
    assert!(seen.contains("two") && seen.ends_with("0\r\n\r\n"), "{seen:?}");
    // At once, since the end was sent after the release.
    assert!(crate::support::is_free(&redlock));
}

/// The server drops such a body once it has its bytes, and never asks for the end of it.
#[tokio::test]
async fn a_stream_of_known_length_that_never_ends_frees_the_lock() {
    let redlock = crate::support::patient();
    let endless = async || {
        let stream = tokio_stream::once(Ok::<_, std::io::Error>("done"));
        ([(header::CONTENT_LENGTH, 4)], Body::from_stream(stream.chain(tokio_stream::pending())))
    };
    let layer = RedlockLayer::http(redlock.clone(), by_id()).hold_until_body_end();
    let app = Router::new().route("/orders/{id}", get(endless)).route_layer(layer);
    let mut client = TcpStream::connect(serve(app).await).await.unwrap();
    let request = "GET /orders/42 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    client.read_to_string(&mut seen).await.unwrap();
    assert!(seen.ends_with("done"), "{seen:?}");
    freed(&redlock).await;
}
