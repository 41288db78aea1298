//! Limits on requests over real connections: ids, a flood from one user while another is served, and clients
//! that hang up.

use std::time::Duration;

use coracle_apiserver::FlowLimits;
use tokio::io::AsyncReadExt;

use crate::world::{MAPS, World, response};

const LIMITS: FlowLimits = FlowLimits {
    requests: 8,
    requests_per_user: 4,
    waiting_per_user: 3,
    waiting: 100,
    wait: Duration::from_secs(3600),
    long_running_per_user: 2,
};

#[tokio::test]
async fn flood_from_one_user_does_not_starve_another() {
    let world = World::new(&LIMITS).await;
    let room = LIMITS.requests_per_user + LIMITS.waiting_per_user;
    let mut flood = Vec::new();
    for number in 0..room {
        flood.push(world.create("flood", MAPS, &format!("held{number}"), true).await);
    }
    world.hold.wait_for(u32::try_from(LIMITS.requests_per_user).unwrap()).await;
    for _ in 0..20 {
        let list = world.list("other").await;
        assert!(list.starts_with("HTTP/1.1 200"), "{list}");
    }
    world.hold.release(room);
    for stream in &mut flood {
        let text = response(stream).await;
        assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    }
    assert!(world.list("flood").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

#[tokio::test]
async fn client_that_hangs_up_gives_its_seat_back() {
    let world = World::new(&LIMITS).await;
    let mut held = Vec::new();
    for number in 0..LIMITS.requests_per_user + 1 {
        held.push(world.create("flood", MAPS, &format!("held{number}"), true).await);
    }
    world.hold.wait_for(u32::try_from(LIMITS.requests_per_user).unwrap()).await;
    drop(held);
    assert!(world.list("flood").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

#[tokio::test]
async fn watches_have_no_seats() {
    let world = World::new(&LIMITS).await;
    let watch = format!("GET {MAPS}?watch=true HTTP/1.1\r\nx-user: watcher");
    let mut watches = Vec::new();
    for _ in 0..LIMITS.long_running_per_user {
        let mut stream = world.send(&watch, "").await;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        watches.push(stream);
    }
    let mut more = world.send(&watch, "").await;
    assert!(response(&mut more).await.starts_with("HTTP/1.1 429"));
    for _ in 0..LIMITS.requests + 1 {
        assert!(world.list("watcher").await.starts_with("HTTP/1.1 200"));
    }
    drop(watches);
    world.end().await;
}

#[tokio::test]
async fn every_response_has_the_id_of_its_request() {
    let world = World::new(&LIMITS).await;
    for (path, user) in [(MAPS, "x-user: a\r\n"), ("/livez", ""), (MAPS, ""), ("/nowhere", "x-user: a\r\n")] {
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: mine"), "").await;
        let text = response(&mut stream).await.to_lowercase();
        assert!(text.contains("\r\naudit-id: mine\r\n"), "{path} {text}");
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: not mine"), "").await;
        let text = response(&mut stream).await.to_lowercase();
        let id = text.split("\r\naudit-id: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
        assert_eq!(id.len(), 36, "{path} {text}");
    }
    world.end().await;
}
