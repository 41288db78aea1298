//! Request bodies that do not end: they hold no seat, and memory only up to a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use coracle_apiserver::FlowLimits;
use futures_util::FutureExt;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::world::{MAPS, PATIENCE, RequestBody, World, response};

/// More than the seats of a server by default.
const ATTACKS_PER_USER: usize = 210;
const ATTACKERS: [&str; 3] = ["mallory", "oscar", "trudy"];
/// A path that the attackers have no permission for.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Checks that other clients are served.
async fn check_others(world: &World) {
    for _ in 0..20 {
        for user in ["alice", "system:node:n"] {
            let list = world.list(user).await;
            assert!(list.starts_with("HTTP/1.1 200"), "{list}");
        }
    }
}

#[tokio::test]
async fn unfinished_http1_bodies_without_permission_delay_nobody() {
    let world = World::new(&FlowLimits::default()).await;
    let mut attacks = Vec::new();
    for user in ATTACKERS {
        for number in 0..ATTACKS_PER_USER {
            attacks.push(world.create(user, SECRETS, &format!("m{number}"), false).await);
        }
    }
    check_others(&world).await;
    // Rejected before the body has come.
    assert!(response(&mut attacks[0]).await.starts_with("HTTP/1.1 403"));
    drop(attacks);
    world.end().await;
}

#[tokio::test]
async fn unfinished_http1_bodies_with_permission_delay_nobody() {
    let world = World::new(&FlowLimits::default()).await;
    let mut attacks = Vec::new();
    for user in ATTACKERS {
        for number in 0..ATTACKS_PER_USER {
            attacks.push(world.create(user, MAPS, &format!("m{number}"), false).await);
        }
    }
    check_others(&world).await;
    // The attackers themselves are served, too: no seat is taken.
    assert!(world.list(ATTACKERS[0]).await.starts_with("HTTP/1.1 200"));
    drop(attacks);
    world.end().await;
}

#[tokio::test]
async fn unfinished_http2_bodies_delay_nobody() {
    let world = World::new(&FlowLimits::default()).await;
    for path in [SECRETS, MAPS] {
        let (mut connections, mut attacks) = (Vec::new(), Vec::new());
        for user in ATTACKERS {
            for _ in 0..ATTACKS_PER_USER.div_ceil(100) {
                let mut connection = world.http2().await;
                for _ in 0..70 {
                    let mut attack = Box::pin(connection.unfinished(user, path));
                    assert!((&mut attack).now_or_never().is_none());
                    attacks.push(attack);
                }
                connections.push(connection);
            }
        }
        check_others(&world).await;
        if path == SECRETS {
            let answer = tokio::time::timeout(PATIENCE, attacks.remove(0)).await.unwrap().unwrap();
            assert_eq!(answer.status(), 403);
        }
        drop((attacks, connections));
    }
    world.end().await;
}

#[tokio::test]
async fn bodies_over_the_limit_of_their_user_are_rejected_with_429() {
    let world = World::new(&FlowLimits::default()).await;
    // Three announce 9 MiB together, of which 8 MiB are allowed.
    let head = |user: &str| {
        let length = 3 * 1024 * 1024;
        format!(
            "POST {MAPS} HTTP/1.1\r\nx-user: {user}\r\ncontent-type: application/json\r\ncontent-length: {length}"
        )
    };
    let held = [world.send(&head("mallory"), "{").await, world.send(&head("mallory"), "{").await];
    let rejected = loop {
        let mut third = world.send(&head("mallory"), "{").await;
        // The first two may not have been read yet; then this one is held instead of one of them.
        let mut first = [0; 12];
        let read = tokio::io::AsyncReadExt::read_exact(&mut third, &mut first);
        if tokio::time::timeout(PATIENCE, read).await.is_ok_and(|read| read.is_ok()) {
            break String::from_utf8_lossy(&first).into_owned();
        }
    };
    assert_eq!(rejected, "HTTP/1.1 429");
    let mut other = world.create("alice", MAPS, "m", true).await;
    assert!(response(&mut other).await.starts_with("HTTP/1.1 201"));
    drop(held);
    world.end().await;
}

/// Larger than the limit of a body, and than the buffers of a loopback connection.
const TOO_LARGE_BYTES: usize = 12 * 1024 * 1024;

#[tokio::test]
async fn response_reaches_an_http1_client_that_sends_its_whole_body_first() {
    let world = World::new(&FlowLimits::default()).await;
    let body = "x".repeat(TOO_LARGE_BYTES);
    for (path, expected) in [(MAPS, "413"), (SECRETS, "403")] {
        let head = format!("POST {path} HTTP/1.1\r\nx-user: alice\r\ncontent-type: application/json");
        let announced = format!("{head}\r\ncontent-length: {TOO_LARGE_BYTES}");
        let mut stream = world.send(&announced, &body).await;
        let text = response(&mut stream).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {expected} ")), "{path}: {text}");
        let chunk = format!("{TOO_LARGE_BYTES:x}\r\n{body}\r\n0\r\n\r\n");
        let mut stream = world.send(&format!("{head}\r\ntransfer-encoding: chunked"), &chunk).await;
        let text = response(&mut stream).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {expected} ")), "{path}: {text}");
    }
    world.end().await;
}

#[tokio::test]
async fn client_that_waits_before_it_sends_its_body_is_answered_at_once() {
    let world = World::new(&FlowLimits::default()).await;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nx-user: alice\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
         content-length: {TOO_LARGE_BYTES}"
    );
    let mut stream = world.send(&head, "").await;
    assert!(response(&mut stream).await.starts_with("HTTP/1.1 413 "), "no 100 before it");
    world.end().await;
}

#[tokio::test]
async fn too_large_http2_body_is_read_to_its_end_before_the_response() {
    let world = World::new(&FlowLimits::default()).await;
    let mut connection = world.http2().await;
    for path in [MAPS, SECRETS] {
        let (body, sent) = pieces(TOO_LARGE_BYTES / PIECE_BYTES);
        let request = http::Request::builder().method("POST").uri(format!("http://test{path}"));
        let request = request.header("x-user", "alice").header("content-type", "application/json");
        let answer = connection.sender.send_request(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status(), if path == MAPS { 413 } else { 403 });
        assert_eq!(sent.load(Ordering::SeqCst), TOO_LARGE_BYTES / PIECE_BYTES, "{path}");
    }
    drop(connection);
    world.end().await;
}

const PIECE_BYTES: usize = 64 * 1024;

/// A body with a number of chunks, and a counter of the sent ones.
fn pieces(count: usize) -> (RequestBody, Arc<AtomicUsize>) {
    let sent = Arc::<AtomicUsize>::default();
    let counter = sent.clone();
    let piece = move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(Frame::data(Bytes::from(vec![b'x'; PIECE_BYTES])))
    };
    (BodyExt::boxed(StreamBody::new(futures_util::stream::iter((0..count).map(piece)))), sent)
}
