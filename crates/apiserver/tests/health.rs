//! Health paths and rejected requests, tested on the service without sockets.

use std::sync::Arc;

use coracle_apiserver::{ApiServer, HealthChecks, Identity, MAX_REQUEST_BODY_BYTES, PeerIdentity, Unhealthy};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A server with a check `store` that passes or not.
fn server(store_works: bool) -> (ApiServer, CancellationToken) {
    let shutting_down = CancellationToken::new();
    let mut health = HealthChecks::new(shutting_down.clone());
    let outcome = if store_works { Ok(()) } else { Err(Unhealthy::Failed("secret reason".to_owned())) };
    health.register("store", move || std::future::ready(outcome.clone()));
    (ApiServer::new(health, Registry::in_memory(), Clock::system()), shutting_down)
}

async fn ask(server: &ApiServer, method: Method, path: &str) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .expect("a request");
    let Ok(response) = server.clone().oneshot(request).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8(body.to_vec()).expect("text"))
}

async fn check(server: &ApiServer, path: &str, code: u16, body: &str) {
    assert_eq!(ask(server, Method::GET, path).await, (code, body.to_owned()), "{path}");
}

#[tokio::test]
async fn healthy_server_passes_all_health_checks() {
    let (server, _) = server(true);
    for path in
        ["/livez", "/readyz", "/healthz", "/livez/ping", "/readyz/store", "/readyz/etcd", "/readyz/shutdown"]
    {
        check(&server, path, 200, "ok").await;
    }
    check(&server, "/livez?verbose", 200, "[+]ping ok\n[+]store ok\nlivez check passed\n").await;
    let verbose = "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n";
    check(&server, "/readyz?verbose=1", 200, verbose).await;
    assert_eq!(ask(&server, Method::HEAD, "/livez").await.0, 200);
}

#[tokio::test]
async fn failing_check_is_named_without_its_reason() {
    let (server, _) = server(false);
    let failed = "[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n";
    check(&server, "/livez", 500, failed).await;
    check(&server, "/livez/store", 500, "internal server error: reason withheld\n").await;
    check(&server, "/livez/etcd", 500, "internal server error: reason withheld\n").await;
    check(&server, "/livez?exclude=store", 200, "ok").await;
    check(&server, "/livez?exclude=etcd", 200, "ok").await;
    let excluded = "[+]ping ok\n[+]store excluded: ok\nlivez check passed\n";
    check(&server, "/livez?verbose&exclude=store", 200, excluded).await;
}

#[tokio::test]
async fn server_that_shuts_down_is_live_and_not_ready() {
    let (server, shutting_down) = server(true);
    shutting_down.cancel();
    let failed = "[+]ping ok\n[+]store ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
    check(&server, "/readyz", 500, failed).await;
    check(&server, "/livez", 200, "ok").await;
}

#[tokio::test]
async fn unauthorized_request_is_rejected_with_a_status() {
    let (server, _) = server(true);
    for (method, path, code, reason) in [
        (Method::GET, "/", 401, "Unauthorized"),
        (Method::POST, "/api/v1/pods", 401, "Unauthorized"),
        (Method::POST, "/livez", 403, "Forbidden"),
        (Method::DELETE, "/readyz/store", 403, "Forbidden"),
    ] {
        let (found, body) = ask(&server, method, path).await;
        let status: serde_json::Value = serde_json::from_str(&body).expect("a Status");
        assert_eq!(
            (found, &status["reason"], &status["code"]),
            (code, &reason.into(), &code.into()),
            "{path}"
        );
    }
    for path in ["/livez/", "/livez/unknown", "/livez/shutdown"] {
        check(&server, path, 404, "404 page not found\n").await;
    }
}

#[tokio::test]
async fn body_that_announces_too_much_is_rejected_after_authentication() {
    let (server, _) = server(true);
    let groups = vec!["system:masters".to_owned()];
    let admin = Arc::new(Identity { name: "admin".to_owned(), groups, ..Identity::default() });
    for (peer, bytes, expected) in [
        (None, MAX_REQUEST_BODY_BYTES + 1, 401),
        (Some(admin.clone()), MAX_REQUEST_BODY_BYTES + 1, 413),
        // The body itself is empty.
        (Some(admin), MAX_REQUEST_BODY_BYTES, 400),
    ] {
        let mut request = Request::post("/api/v1/namespaces/default/configmaps")
            .header(header::CONTENT_LENGTH, bytes)
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        request.extensions_mut().insert(PeerIdentity(peer));
        assert_eq!(server.clone().oneshot(request).await.unwrap().status().as_u16(), expected, "{bytes}");
    }
}
