//! WebSockets: what a layer holds of them, and how the documentation says to lock them.

use std::time::Duration;

use axum::{
    Router,
    extract::{
        Path, State,
        ws::{WebSocket, WebSocketUpgrade},
    },
    response::Response,
    routing::get,
};
use redlock_core::{LockGuard, Redlock};
use redlock_tower::{RedlockLayer, extract, http::LockRejection};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{freed, held_elsewhere, is_free, keys, patient};

/// Answers to the end of the socket.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let _ = socket.send(message).await;
    }
}

/// A socket on `/rooms/42` of this application, and the status of the answer to its request.
async fn open(app: Router) -> (TcpStream, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "GET /rooms/42 HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\n\
        upgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (client, status)
}

/// Sends an empty message, and waits until it comes back: the socket is served.
async fn exchange(client: &mut TcpStream) {
    client.write_all(&[0x81, 0x80, 0, 0, 0, 0]).await.unwrap();
    let mut frame = [0; 2];
    client.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame, [0x81, 0]);
}

/// The answer to the handshake has no body, so that there is nothing to hold a lock until the end
/// of.
#[tokio::test]
async fn a_layer_holds_its_lock_for_the_handshake_only() {
    let redlock = patient();
    let layer = RedlockLayer::http(redlock.clone(), extract::path_param("id").prefix("room:"))
        .hold_until_body_end();
    let join = async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo);
    let (mut client, status) =
        open(Router::new().route("/rooms/{id}", get(join).layer(layer))).await;
    assert_eq!(status, "101");
    exchange(&mut client).await;
    assert!(is_free(&redlock));
}

/// The form of the documentation.
async fn join(
    State(redlock): State<Redlock>,
    Path(id): Path<u64>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, LockRejection> {
    let guard: LockGuard = redlock.lock(format!("room:{id}")).wait(Duration::ZERO).await?;
    Ok(upgrade.on_upgrade(async move |socket| {
        tokio::select! {
            () = guard.lost() => {}
            () = echo(socket) => {}
        }
        let _ = guard.release().await;
    }))
}

fn rooms(redlock: &Redlock) -> Router {
    Router::new().route("/rooms/{id}", get(join)).with_state(redlock.clone())
}

#[tokio::test]
async fn a_guard_that_moves_into_the_socket_holds_until_its_end() {
    let redlock = patient();
    let (mut client, status) = open(rooms(&redlock)).await;
    assert_eq!(status, "101");
    exchange(&mut client).await;
    assert_eq!(keys(&redlock), ["redlock:room:42"]);
    drop(client);
    freed(&redlock).await;
}

#[tokio::test]
async fn a_socket_whose_room_is_locked_is_refused_before_the_handshake() {
    let redlock = patient();
    let _held = held_elsewhere(&redlock, "room:42").await;
    let (_client, status) = open(rooms(&redlock)).await;
    assert_eq!(status, "423");
}

#[tokio::test]
async fn a_socket_whose_lock_is_lost_is_closed() {
    let redlock = patient();
    let (mut client, _) = open(rooms(&redlock)).await;
    exchange(&mut client).await;
    redlock.release_all().await;
    let mut rest = [0; 16];
    let closed = tokio::time::timeout(Duration::from_secs(20), client.read(&mut rest)).await;
    assert_eq!(closed.unwrap().unwrap_or(0), 0);
}
