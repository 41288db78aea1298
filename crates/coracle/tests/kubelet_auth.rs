//! Authorization for the kubelet's API, decided by a real server: a service account token and its roles.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use coracle::kube::Client;
use coracle::kube::api::{Api, PostParams};
use coracle::{Config, Coracle, StoreConfig};
use coracle_base::Clock;
use coracle_kubelet::server::auth::{ApiReviewer, AuthLayer};
use http::{Request, Response, header};
use http_body_util::Full;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::{Layer, ServiceExt, service_fn};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Creates a service account with access to the node's metrics, and a token of it.
async fn scraper(client: &Client) -> String {
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.create(&params, &object(json!({"metadata": {"name": "scraper"}}))).await.unwrap();
    let role = json!({
        "metadata": {"name": "scraper"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}],
    });
    Api::<ClusterRole>::all(client.clone()).create(&params, &object(role)).await.unwrap();
    let binding = json!({
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "scraper"}],
    });
    Api::<ClusterRoleBinding>::all(client.clone()).create(&params, &object(binding)).await.unwrap();
    let request: TokenRequest = object(json!({"metadata": {}, "spec": {"audiences": []}}));
    let token = accounts.create_token_request("scraper", &params, &request).await.unwrap();
    token.status.unwrap().token.unwrap()
}

/// The status code of a request to the kubelet's API.
async fn status_code(layer: &AuthLayer<ApiReviewer>, path: &str, token: &str) -> u16 {
    let service =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("in"))));
    let mut request = Request::builder().uri(path);
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    layer.layer(service).oneshot(request.body(()).unwrap()).await.unwrap().status().as_u16()
}

/// Each attempt uses a new layer without cached reviews, because writes become visible to authorization a
/// moment later.
async fn until_allowed(client: &Client, path: &str, token: &str) {
    loop {
        let layer = AuthLayer::new("node", ApiReviewer::new(client.clone()), Clock::system());
        if status_code(&layer, path, token).await == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn kubelet_api_accepts_tokens_and_roles_of_the_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(dir.path()) };
    let cluster = Coracle::start(config).await.unwrap();
    let client = cluster.client();
    let token = scraper(&client).await;
    tokio::time::timeout(LIMIT, until_allowed(&client, "/metrics", &token)).await.unwrap();
    let layer = AuthLayer::new("node", ApiReviewer::new(client.clone()), Clock::system());
    for (path, token, code) in [
        ("/healthz", "", 200),
        ("/metrics", "", 401),
        ("/metrics", "forged", 401),
        ("/metrics/cadvisor", &*token, 200),
        ("/pods", &token, 403),
        ("/exec/default/p/c", &token, 403),
        ("/stats/summary", &token, 403),
        ("/metrics/../exec/default/p/c", &token, 400),
    ] {
        assert_eq!(status_code(&layer, path, token).await, code, "{path}");
    }
    cluster.shutdown().await;
}
