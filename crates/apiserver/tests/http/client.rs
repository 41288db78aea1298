//! A client of the service itself, as an administrator, shared by several test programs.

use std::sync::Arc;

use bytes::Bytes;
use coracle_apiserver::{ApiServer, CredentialScope, HealthChecks, Identity, PeerIdentity, ResponseBody};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: ApiServer,
    pub(crate) identity: Option<Arc<Identity>>,
}

impl Client {
    /// A client of a new server that has the namespace `default`.
    pub(crate) async fn new() -> Self {
        Self::with_shutdown(CancellationToken::new()).await
    }

    /// A client of a server whose watches end when `shutdown` is cancelled.
    pub(crate) async fn with_shutdown(shutdown: CancellationToken) -> Self {
        let health = HealthChecks::new(CancellationToken::new());
        let admin =
            Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
        let server = ApiServer::new(health, Registry::in_memory(), Clock::system()).with_shutdown(shutdown);
        let client = Self { server, identity: Some(Arc::new(admin)) };
        client.json(Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        client
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<ResponseBody> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::new(body.into())).unwrap();
        request.extensions_mut().insert(PeerIdentity(self.identity.clone()));
        request.extensions_mut().insert(CredentialScope::AllClusters);
        self.server.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn json(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let response = self.send(method, path, &[("content-type", "application/json")], body).await;
        (response.status().as_u16(), serde_json::from_slice(&bytes(response).await).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.json(Method::GET, path, Value::Null).await
    }

    /// GET of a body in a form.
    pub(crate) async fn accept(&self, path: &str, accept: &str) -> Response<ResponseBody> {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(crate) async fn create(&self, name: &str, label: &str) -> u64 {
        let (code, object) = self.json(Method::POST, CONFIG_MAPS, config_map(name, label)).await;
        assert_eq!(code, 201, "{object}");
        revision(&object)
    }
}

pub(crate) fn config_map(name: &str, label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"label": label}}, "data": {"key": "value"}
    })
}

pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub(crate) async fn bytes(response: Response<ResponseBody>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

pub(crate) fn content_type(response: &Response<ResponseBody>) -> &str {
    response.headers()["content-type"].to_str().unwrap()
}
