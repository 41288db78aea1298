//! Request bodies that do not end: they hold no seat, and memory only up to a limit.

use coracle_apiserver::FlowLimits;
use futures_util::FutureExt;

use crate::world::{MAPS, PATIENCE, World, response};

/// More than the seats of a server by default.
const ATTACKS_PER_USER: usize = 210;
const ATTACKERS: [&str; 3] = ["mallory", "oscar", "trudy"];
/// A path that the attackers have no permission for.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Whether others are served.
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
