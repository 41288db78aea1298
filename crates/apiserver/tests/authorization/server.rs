//! A server in memory with the base objects of a cluster, and clients with any identity.

use std::sync::Arc;

use coracle_apiserver::{ApiServer, CredentialScope, HealthChecks, Identity, PeerIdentity};
use coracle_base::Clock;
use coracle_registry::{Registry, ServerInfo};
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Attempts before a change must have become effective. The client yields to other tasks between attempts.
const PATIENCE: usize = 100_000;

#[derive(Clone)]
pub(crate) struct Client {
    server: ApiServer,
    identity: Option<Arc<Identity>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The administrator of a new server with the namespace `ns`.
pub(crate) async fn admin() -> Client {
    let health = HealthChecks::new(CancellationToken::new());
    let server = ApiServer::new(health, Registry::in_memory(), Clock::system());
    server.bootstrap(&ServerInfo::default()).await.unwrap();
    let client = Client { server, identity: None, headers: Vec::new() }.named("admin", &["system:masters"]);
    client.make("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
    for id in ["t", "tenant", "a", "b"] {
        client.make("/admin/clusters", json!({"id": id})).await;
    }
    client
}

impl Client {
    /// Another user of the same server.
    pub(crate) fn named(&self, name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let identity = Identity { name: name.to_owned(), groups, ..Identity::default() };
        Self { identity: Some(Arc::new(identity)), ..self.clone() }
    }

    /// An authenticated user without roles.
    pub(crate) fn user(&self, name: &str) -> Self {
        self.named(name, &["system:authenticated"])
    }

    /// A client without credentials.
    pub(crate) fn stranger(&self) -> Self {
        Self { identity: None, ..self.clone() }
    }

    /// The same, with one more header in all requests.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((HeaderName::from_static(name), value.parse().unwrap()));
        client
    }

    /// Members of system:masters have an operator's credential, all others a credential of the cluster in the path.
    fn scope(&self, path: &str) -> CredentialScope {
        let groups = self.identity.as_ref().map(|identity| identity.groups.as_slice()).unwrap_or_default();
        if groups.iter().any(|group| group == "system:masters") {
            return CredentialScope::AllClusters;
        }
        let cluster = path.strip_prefix("/clusters/").and_then(|rest| rest.split('/').next());
        let cluster = self.server.cluster_reference(cluster.unwrap_or("default")).ok();
        cluster.map_or(CredentialScope::DefaultCluster, Into::into)
    }

    async fn answer(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: &Value,
    ) -> Response<coracle_apiserver::ResponseBody> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let mut request = Request::builder().method(method).uri(path).body(Full::from(bytes)).unwrap();
        request.headers_mut().insert(header::CONTENT_TYPE, media_type.parse().unwrap());
        request.headers_mut().extend(self.headers.clone());
        request.extensions_mut().insert(PeerIdentity(self.identity.clone()));
        request.extensions_mut().insert(self.scope(path));
        self.server.clone().oneshot(request).await.unwrap()
    }

    /// Sends something; returns the code and the body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Value,
    ) -> (u16, Value) {
        let response = self.answer(&method, path, media_type, &body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || json!(String::from_utf8_lossy(&bytes));
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    /// Sends a request and returns the status code; the body is dropped.
    pub(crate) async fn code(&self, method: &Method, path: &str) -> u16 {
        self.answer(method, path, "application/json", &Value::Null).await.status().as_u16()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, "application/json", Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, "application/json", body).await
    }

    pub(crate) async fn apply(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=test&force=true");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", body).await
    }

    /// Creates something that must be possible.
    pub(crate) async fn make(&self, path: &str, body: Value) {
        let (code, answer) = self.post(path, body).await;
        assert_eq!(code, 201, "{answer}");
    }

    /// Repeats the request until the response has this code: the authorizer's cache lags behind writes.
    pub(crate) async fn until(&self, code: u16, path: &str) {
        for _ in 0..PATIENCE {
            if self.code(&Method::GET, path).await == code {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{path} never answered {code}");
    }

    /// Gives a user a ClusterRole in a namespace that allows this, and waits until it counts.
    pub(crate) async fn allow(&self, user: &str, namespace: &str, rules: Value) {
        let name = format!("{user}-{namespace}");
        self.make_cluster_role(&name, rules).await;
        self.bind(user, namespace, &name).await;
    }

    pub(crate) async fn make_cluster_role(&self, name: &str, rules: Value) {
        self.make(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await;
    }

    /// Binds a ClusterRole to a user, in a namespace or in all, and waits until the binding is effective.
    pub(crate) async fn bind(&self, user: &str, namespace: &str, role: &str) {
        // A second binding to a path of its own shows when the bindings are effective.
        let (marker, marked) =
            (format!("marker-{user}-{namespace}-{role}"), format!("/marker/{user}/{role}"));
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [marked]}]);
        self.make_cluster_role(&marker, rules).await;
        let path = if namespace.is_empty() {
            format!("{RBAC}/clusterrolebindings")
        } else {
            format!("{RBAC}/namespaces/{namespace}/rolebindings")
        };
        self.make(&path, binding(&format!("{user}-{role}"), role, user)).await;
        self.make(&format!("{RBAC}/clusterrolebindings"), binding(&marker, &marker, user)).await;
        self.user(user).until(404, &marked).await;
    }
}

/// A binding of a ClusterRole to a user.
pub(crate) fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    })
}
