//! A server in memory with one namespace, and a client that is its administrator.

use std::sync::Arc;

use coracle_apiserver::{ApiServer, CredentialScope, EcdsaSigner, HealthChecks, Identity, PeerIdentity};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The issuer of the server's tokens.
pub(crate) const ISSUER: &str = "https://issuer.example";

/// The media type of merge patches.
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A client and its server.
pub(crate) struct Client {
    pub(crate) server: ApiServer,
    pub(crate) identity: Arc<Identity>,
    /// The clusters that the client's credential is valid for.
    pub(crate) scope: CredentialScope,
}

impl Client {
    /// The administrator of a new server with the namespace `default`.
    pub(crate) async fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let signer = EcdsaSigner::from_pem(ISSUER, key.as_bytes()).unwrap();
        let health = HealthChecks::new(CancellationToken::new());
        let server = ApiServer::new(health, Registry::in_memory(), Clock::system());
        let identity =
            Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
        let server = server.with_token_signer(Arc::new(signer));
        let client = Self { server, identity: Arc::new(identity), scope: CredentialScope::AllClusters };
        client.post("/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        // No controller runs here to make it, and pods need it.
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        client.post(accounts, json!({"metadata": {"name": "default"}})).await;
        client
    }

    /// Sends JSON, or what goes by that name; or asks for it. Returns the code and the body, which may be text.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Value,
    ) -> (u16, Value) {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let told = if method == Method::GET { header::ACCEPT } else { header::CONTENT_TYPE };
        let request = Request::builder().method(method).uri(path).header(told, media_type);
        let mut request = request.body(Full::from(bytes)).unwrap();
        request.extensions_mut().insert(PeerIdentity(Some(self.identity.clone())));
        request.extensions_mut().insert(self.scope.clone());
        let response = self.server.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || json!(String::from_utf8_lossy(&bytes));
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    /// POST of JSON.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, "application/json", body).await
    }
}
