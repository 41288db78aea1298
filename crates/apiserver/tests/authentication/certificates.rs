//! Client certificates and front proxies, over TLS.

use std::slice::from_ref;

use coracle_apiserver::CredentialScope;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{PROBE, STATIC_TOKEN};
use crate::wire::{Authority, Running};

const MASTERS: &str = "system:masters";
const HEALTH: &str = "/healthz";

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[tokio::test]
async fn certificate_of_the_ca_is_authenticated() {
    let running = Running::start().await;
    let (admin, user) = (running.clients.client("admin", MASTERS), running.clients.client("me", "crew"));
    assert_eq!(running.get(Some(&admin), PROBE, "").await, 200);
    assert_eq!(running.get(Some(&user), PROBE, "").await, 403);
    assert_eq!(running.get(None, PROBE, "").await, 401);
    running.stop().await;
}

#[tokio::test]
async fn certificate_is_valid_in_the_clusters_of_its_extension() {
    let running = Running::start().await;
    let everywhere = "/clusters/*/api/v1/pods";
    let all = CredentialScope::AllClusters.to_der();
    let operator = running.clients.scoped("admin", MASTERS, std::slice::from_ref(&all));
    assert_eq!(running.get(Some(&operator), PROBE, "").await, 200);
    assert_eq!(running.get(Some(&operator), everywhere, "").await, 200);
    let impersonation = "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n";
    assert_eq!(running.get(Some(&operator), PROBE, impersonation).await, 200);
    assert_eq!(running.get(Some(&operator), everywhere, impersonation).await, 403);

    let unscoped = running.clients.client("admin", MASTERS);
    assert_eq!(running.get(Some(&unscoped), PROBE, "").await, 200);
    assert_eq!(running.get(Some(&unscoped), everywhere, "").await, 403);
    assert_eq!(running.get(Some(&unscoped), everywhere, impersonation).await, 403);

    let other = CredentialScope::of_cluster("other", "u1").to_der();
    for (what, extensions) in [
        ("of another cluster", vec![other.clone()]),
        ("malformed", vec![b"nonsense".to_vec()]),
        ("empty", vec![Vec::new()]),
        ("twice", vec![all.clone(), other]),
    ] {
        let pair = running.clients.scoped("admin", MASTERS, &extensions);
        for path in [PROBE, everywhere] {
            assert_eq!(running.get(Some(&pair), path, "").await, 401, "{what} {path}");
        }
    }
    // Only our authority gives it.
    let strangers = Authority::new("clients");
    for pair in [
        strangers.scoped("admin", MASTERS, from_ref(&all)),
        running.proxies.scoped("proxy", "", from_ref(&all)),
    ] {
        let headers = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";
        assert!([401, 403].contains(&running.get(Some(&pair), everywhere, headers).await));
    }
    running.stop().await;
}

#[tokio::test]
async fn certificate_takes_precedence_over_a_token() {
    let running = Running::start().await;
    let user = running.clients.client("me", "crew");
    assert_eq!(running.get(Some(&user), PROBE, &bearer(STATIC_TOKEN)).await, 403);
    assert_eq!(running.get(Some(&user), PROBE, &bearer("nonsense")).await, 403);
    assert_eq!(running.get(None, PROBE, &bearer(STATIC_TOKEN)).await, 200);
    running.stop().await;
}

#[tokio::test]
async fn unverifiable_certificates_are_rejected() {
    let running = Running::start().await;
    let strangers = Authority::new("clients");
    let bad = [
        ("of another authority", strangers.client("admin", MASTERS)),
        ("expired", running.clients.expired("admin", MASTERS)),
        ("of a server", running.clients.server("admin", MASTERS)),
        ("of a front proxy", running.proxies.client("proxy", MASTERS)),
    ];
    for (what, pair) in &bad {
        for path in [PROBE, "/", HEALTH, "/livez", "/readyz"] {
            assert_eq!(running.get(Some(pair), path, "").await, 401, "{what} {path}");
        }
        // Something better beside it counts.
        assert_eq!(running.get(Some(pair), PROBE, &bearer(STATIC_TOKEN)).await, 200, "{what}");
    }
    assert_eq!(running.get(None, HEALTH, "").await, 200);
    running.stop().await;
}

#[tokio::test]
async fn a_front_proxy_says_who_it_is() {
    let running = Running::start().await;
    let proxy = running.proxies.client("proxy", "");
    let headers = "X-Remote-User: jane\r\nX-Remote-Group: dev\r\n";
    assert_eq!(running.get(Some(&proxy), PROBE, headers).await, 403);
    let headers = "x-remote-user: jane\r\nX-REMOTE-GROUP: dev\r\nX-Remote-Group: system:masters\r\n";
    assert_eq!(running.get(Some(&proxy), PROBE, headers).await, 200);
    assert_eq!(running.get(Some(&proxy), PROBE, "X-Remote-Group: system:masters\r\n").await, 401);
    running.stop().await;
}

#[tokio::test]
async fn headers_of_a_front_proxy_are_refused_from_others() {
    let running = Running::start().await;
    let strangers = Authority::new("proxies");
    let headers = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";
    assert_eq!(running.get(None, PROBE, headers).await, 401);
    for (what, pair) in [
        ("another name", running.proxies.client("other", "")),
        ("no name", running.proxies.client("", "")),
        ("another authority", strangers.client("proxy", "")),
        ("expired", running.proxies.expired("proxy", "")),
        ("of a server", running.proxies.server("proxy", "")),
    ] {
        assert_eq!(running.get(Some(&pair), PROBE, headers).await, 401, "{what}");
    }
    // A client certificate or token keeps its own identity, even with the name and headers of a proxy.
    let user = running.clients.client("proxy", "crew");
    assert_eq!(running.get(Some(&user), PROBE, headers).await, 403);
    let with_token = format!("{headers}{}", bearer("other-token"));
    assert_eq!(running.get(None, PROBE, &with_token).await, 403);
    running.stop().await;
}

#[tokio::test]
async fn older_tls_is_refused() {
    let running = Running::start().await;
    // SSL 3, TLS 1.0 and TLS 1.1, with ciphers that they had.
    for minor in 0..=2 {
        let mut hello = vec![3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, 6, 0x00, 0x2f, 0x00, 0x35, 0xc0, 0x13, 1, 0]);
        let length = u8::try_from(hello.len()).unwrap();
        let mut record = vec![22, 3, minor.min(1), 0, length + 4, 1, 0, 0, length];
        record.extend(hello);
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&record).await.unwrap();
        let mut answer = Vec::new();
        // Nothing but a fatal alert, and then the end.
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!((answer.first(), answer.get(5), answer.len()), (Some(&21), Some(&2), 7), "{answer:?}");
    }
    running.stop().await;
}
