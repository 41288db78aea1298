//! Users and observers: clients without faults.

use std::sync::Arc;

use bytes::Bytes;
use coracle_apiserver::{ApiServer, CredentialScope, Identity, PeerIdentity, ResponseBody};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::ServiceExt;

/// A client that always reaches the server.
#[derive(Clone)]
pub(crate) struct Users {
    server: ApiServer,
    peer: PeerIdentity,
}

/// A user with all permissions.
pub(crate) fn identity(user: &str) -> PeerIdentity {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    PeerIdentity(Some(Arc::new(Identity { name: user.to_owned(), groups, ..Identity::default() })))
}

impl Users {
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self { server: server.clone(), peer: identity("users") }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        self.send(Method::POST, path, object).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Applies a merge patch.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Value {
        self.send(Method::PATCH, path, patch).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Value {
        self.send(Method::DELETE, path, options).await
    }

    /// The response body; null for 403, 404 and 409.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let what = format!("{method} {path}");
        let answer = self.ask(method, path, body).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        match code {
            200..300 => serde_json::from_slice(&bytes).unwrap(),
            // 403 is also the response to creations in a terminating namespace.
            403 | 404 | 409 => Value::Null,
            _ => panic!("{what}: {code} {}", String::from_utf8_lossy(&bytes)),
        }
    }

    /// Sends a request and returns the whole response.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Response<ResponseBody> {
        let media_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Bytes::new() } else { serde_json::to_vec(body).unwrap().into() };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(header::CONTENT_TYPE, media_type).extension(self.peer.clone());
        request = request.extension(CredentialScope::AllClusters);
        let Ok(answer) = self.server.clone().oneshot(request.body(Full::new(bytes)).unwrap()).await;
        answer
    }
}
