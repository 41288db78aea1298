//! The clusters of a running server, through its admin API: created, listed, limited and deleted.
//!
//! The client needs the operator's credential, as in `admin.kubeconfig`, and its paths are those of the
//! server. A program that embeds the server calls [`Handle::create_cluster`](crate::Handle::create_cluster)
//! and its siblings.

use std::collections::HashMap;

pub use coracle_apiserver::{ClusterInfo, ClusterLimits, ClusterUsage, LimitsChange, RegistryError};
use http::{Method, Request, header};
use kube::Client;
use serde_json::{Map, Value, json};

const PATH: &str = "/admin/clusters";

/// Creates an empty cluster. Limits that are left out are those of the server's configuration.
///
/// # Errors
/// If the id is invalid or taken, the client is not the operator's, or the server does not answer.
pub async fn create(client: &Client, id: &str, limits: &LimitsChange) -> kube::Result<ClusterInfo> {
    let body = json!({"id": id, "limits": limits_json(limits)});
    client.request(request(Method::POST, PATH.to_owned(), Some(&body))?).await
}

/// All clusters, the default one first.
///
/// # Errors
/// If the client is not the operator's, or the server does not answer.
pub async fn list(client: &Client) -> kube::Result<Vec<ClusterInfo>> {
    let mut found: HashMap<String, Vec<ClusterInfo>> =
        client.request(request(Method::GET, PATH.to_owned(), None)?).await?;
    Ok(found.remove("items").unwrap_or_default())
}

/// One cluster.
///
/// # Errors
/// If there is no such cluster, the client is not the operator's, or the server does not answer.
pub async fn get(client: &Client, id: &str) -> kube::Result<ClusterInfo> {
    client.request(request(Method::GET, format!("{PATH}/{id}"), None)?).await
}

/// Changes the limits of a cluster.
///
/// # Errors
/// As for [`get`].
pub async fn set_limits(client: &Client, id: &str, limits: &LimitsChange) -> kube::Result<ClusterInfo> {
    let body = json!({"limits": limits_json(limits)});
    client.request(request(Method::PATCH, format!("{PATH}/{id}"), Some(&body))?).await
}

/// Deletes a cluster with everything in it.
///
/// # Errors
/// As for [`get`]; and if it is the default cluster.
pub async fn delete(client: &Client, id: &str) -> kube::Result<()> {
    client.request_text(request(Method::DELETE, format!("{PATH}/{id}"), None)?).await.map(drop)
}

/// Limits that are not changed are left out; `null` is unlimited.
fn limits_json(limits: &LimitsChange) -> Value {
    let given = [("maxBytes", limits.max_bytes), ("maxObjects", limits.max_objects)];
    let given = given.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))));
    Value::Object(given.collect::<Map<_, _>>())
}

fn request(method: Method, path: String, body: Option<&Value>) -> kube::Result<Request<Vec<u8>>> {
    let request = Request::builder().method(method).uri(path);
    let body = body.map(serde_json::to_vec).transpose().map_err(kube::Error::SerdeError)?;
    let request = request.header(header::CONTENT_TYPE, "application/json").body(body.unwrap_or_default());
    request.map_err(kube::Error::HttpError)
}
