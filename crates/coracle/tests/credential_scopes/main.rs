//! Every credential of one cluster on every route of the others: none is valid there.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod credentials;
mod routes;
mod server;

use coracle::clusters::LimitsChange;
use credentials::Credential;
use futures_util::StreamExt;
use http::Method;
use routes::Route;
use server::{ALL, CLUSTERS, Server};

/// Requests at a time.
const CONCURRENCY: usize = 16;

/// Sends a request to every route of a cluster, and returns those that were not answered as expected.
async fn walk(
    credential: &Credential,
    cluster: &str,
    routes: &[Route],
    expected: impl Fn(u16) -> bool,
) -> Vec<String> {
    let answers = futures_util::stream::iter(routes).map(async |Route { method, path }| {
        let path = server::path(cluster, path);
        let code = credential.code(method, &path).await;
        (format!("{}: {method} {path}: {code}", credential.name), code)
    });
    let answers: Vec<_> = answers.buffered(CONCURRENCY).collect().await;
    answers.into_iter().filter(|(_, code)| !expected(*code)).map(|(what, _)| what).collect()
}

fn is_rejected(code: u16) -> bool {
    matches!(code, 401 | 403)
}

#[tokio::test]
async fn credential_of_one_cluster_is_rejected_on_every_route_of_others() {
    let server = Server::start().await;
    let routes = routes::all(&server).await;
    assert!(routes.len() > 800, "{} routes are too few to be all", routes.len());
    let mut credentials = Vec::new();
    for cluster in CLUSTERS {
        credentials.extend(credentials::of_cluster(&server, cluster).await);
    }
    credentials.extend(credentials::of_configuration(&server).await);
    for credential in &credentials {
        let known = credential.code(&Method::GET, &server::path(credential.cluster, "/api/v1/pods")).await;
        assert!(matches!(known, 200 | 403), "{} is valid in its own cluster: {known}", credential.name);
        for cluster in CLUSTERS.into_iter().chain([ALL]).filter(|cluster| *cluster != credential.cluster) {
            let wrong = walk(credential, cluster, &routes, is_rejected).await;
            assert_eq!(wrong, [""; 0]);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn credential_of_another_cluster_is_unauthorized() {
    let server = Server::start().await;
    let masters = credentials::masters_certificate(&server, "default").await;
    let answer = masters.answer(&Method::GET, "/clusters/t1/api/v1/secrets").await;
    let expected = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(answer, (401, expected));
    assert_eq!(masters.code(&Method::GET, "/api/v1/secrets").await, 200);
    assert_eq!(masters.code(&Method::GET, "/clusters/*/api/v1/secrets").await, 403);
    server.stop().await;
}

#[tokio::test]
async fn operator_reaches_every_route_of_all_clusters() {
    let server = Server::start().await;
    let operator = credentials::operator(&server).await;
    // Watches and connections last for as long as the client listens.
    let reads: Vec<Route> = routes::all(&server).await.into_iter().filter(Route::is_short_read).collect();
    for cluster in CLUSTERS {
        let wrong = walk(&operator, cluster, &reads, |code| !is_rejected(code)).await;
        assert_eq!(wrong, [""; 0]);
    }
    let lists =
        ["/api/v1/secrets", "/apis/apps/v1/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles"];
    for path in lists {
        assert_eq!(operator.code(&Method::GET, &server::path(ALL, path)).await, 200, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn impersonating_operator_acts_in_one_cluster() {
    let server = Server::start().await;
    let masters = credentials::operator(&server).await.impersonating("admin", "system:masters");
    for cluster in CLUSTERS {
        assert_eq!(masters.code(&Method::GET, &server::path(cluster, "/api/v1/secrets")).await, 200);
    }
    assert_eq!(masters.code(&Method::GET, &server::path(ALL, "/api/v1/secrets")).await, 403);
    server.stop().await;
}

#[tokio::test]
async fn credential_of_a_deleted_cluster_is_invalid_even_if_the_id_is_recreated() {
    let server = Server::start().await;
    let operator = credentials::operator(&server).await;
    let credentials = credentials::of_cluster(&server, "t1").await;
    let pods = server::path("t1", "/api/v1/pods");
    for credential in &credentials {
        let known = credential.code(&Method::GET, &pods).await;
        assert!(matches!(known, 200 | 403), "{} is valid: {known}", credential.name);
    }
    server.handle.delete_cluster("t1").await.unwrap();
    for credential in &credentials {
        assert_eq!(credential.code(&Method::GET, &pods).await, 401, "{} after the deletion", credential.name);
    }
    assert_eq!(operator.code(&Method::GET, &pods).await, 404);

    server.handle.create_cluster("t1", LimitsChange::default()).await.unwrap();
    assert_eq!(operator.code(&Method::GET, &pods).await, 200);
    for credential in &credentials {
        assert_eq!(credential.code(&Method::GET, &pods).await, 401, "{} is revived", credential.name);
    }
    for credential in &credentials::of_cluster(&server, "t1").await {
        let known = credential.code(&Method::GET, &pods).await;
        assert!(matches!(known, 200 | 403), "new {} is valid: {known}", credential.name);
    }
    server.stop().await;
}

#[tokio::test]
async fn unknown_cluster_responds_like_a_foreign_one() {
    let server = Server::start().await;
    let masters = credentials::masters_certificate(&server, "default").await;
    for path in ["/api/v1/secrets", "/apis", "/version", "/nothing"] {
        let foreign = masters.answer(&Method::GET, &server::path("t1", path)).await;
        assert_eq!(foreign.0, 401);
        assert_eq!(masters.answer(&Method::GET, &server::path("unknown", path)).await, foreign, "{path}");
    }
    assert_eq!(masters.code(&Method::GET, "/admin/clusters").await, 403);
    server.stop().await;
}

#[tokio::test]
async fn encoded_cluster_id_is_not_found() {
    let server = Server::start().await;
    let operator = credentials::operator(&server).await;
    let masters = credentials::masters_certificate(&server, "default").await;
    for id in ["%2A", "%2a", "%64efault", "%74%31", "t%31", "*%20", "**", "%2E", "%2e%2e"] {
        for path in ["/api/v1/secrets", "/apis", "/version", "/nothing"] {
            let path = format!("/clusters/{id}{path}");
            for credential in [&operator, &masters] {
                let code = credential.code(&Method::GET, &path).await;
                assert_eq!(code, 404, "{} {path}", credential.name);
            }
        }
    }
    server.stop().await;
}
