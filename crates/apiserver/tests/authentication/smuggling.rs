//! Requests that mean one thing to a proxy and another to the server.

use crate::site::{PROBE, STATIC_TOKEN};
use crate::wire::{Running, code};

#[tokio::test]
async fn headers_that_look_like_others_mean_nothing() {
    let running = Running::start().await;
    let proxy = running.proxies.client("proxy", "");
    for line in
        ["X_Remote_User: admin", "X-Remote_User: admin", "X.Remote.User: admin", "X-Remote-Users: admin"]
    {
        let lines = format!("{line}\r\nX-Remote-Group: system:masters\r\n");
        assert_eq!(running.get(Some(&proxy), PROBE, &lines).await, 401, "{line}");
    }
    for line in ["Authorization_: Bearer x", "X-Authorization: Bearer x", "Proxy-Authorization: Bearer x"] {
        let line = line.replace('x', STATIC_TOKEN);
        assert_eq!(running.get(None, PROBE, &format!("{line}\r\n")).await, 401, "{line}");
    }
    running.stop().await;
}

#[tokio::test]
async fn headers_that_are_written_wrongly_are_refused() {
    let running = Running::start().await;
    let proxy = running.proxies.client("proxy", "");
    for line in
        ["X-Remote-User : admin", "X-Remote-User\t: admin", " X-Remote-User: admin"].into_iter().chain([
            "X-Remote-User: a\0b",
            "X-Remote-User: a\r\n X-Remote-Group: b",
            "X-Remote\u{2011}User: admin",
        ])
    {
        let lines = format!("{line}\r\nX-Remote-Group: system:masters\r\n");
        let code = running.get(Some(&proxy), PROBE, &lines).await;
        assert!([400, 401].contains(&code), "{line:?}: {code}");
    }
    let bare = format!("Authorization: Bearer {STATIC_TOKEN}\nAuthorization: Bearer nonsense\r\n");
    assert_eq!(running.get(None, PROBE, &bare).await, 401);
    running.stop().await;
}

/// Request smuggling: with two lengths, a proxy may see one request where the server sees two.
#[tokio::test]
async fn a_request_with_two_lengths_is_the_last_on_its_connection() {
    let running = Running::start().await;
    let hidden = format!("GET {PROBE} HTTP/1.1\r\nhost: a\r\nAuthorization: Bearer {STATIC_TOKEN}\r\n\r\n");
    let length = hidden.len() + 5;
    for lengths in [
        format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
        format!("content-length: 0\r\ncontent-length: {length}\r\n"),
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n".to_owned(),
    ] {
        let head = format!("POST {PROBE} HTTP/1.1\r\nhost: a\r\n{lengths}\r\n0\r\n\r\n");
        let answer = running.exchange(None, format!("{head}{hidden}").as_bytes()).await.unwrap_or_default();
        assert!(answer.is_empty() || [400, 401].contains(&code(&answer)), "{lengths}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 0, "{lengths}: {answer}");
    }
    running.stop().await;
}
