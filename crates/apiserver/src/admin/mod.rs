//! The admin API of the server: clusters are created, listed, limited and deleted at `/admin/clusters`.
//!
//! It is not part of the Kubernetes API: plain JSON, served on the paths of the default cluster. It requires the
//! operator's credential, without impersonation; roles of a cluster grant no access. Errors are `Status` objects.

mod request;

use bytes::Bytes;
use coracle_registry::ClusterInfo;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use crate::body::{ResponseBody, full};
use crate::service::ApiServer;
use crate::status::Refusal;
use request::{CreateRequest, LimitsRequest};

/// Handles a request for `/admin/clusters`, or for one cluster below it.
pub(crate) async fn answer(
    server: &ApiServer,
    id: Option<&str>,
    method: &Method,
    body: &Bytes,
) -> Result<Response<ResponseBody>, Refusal> {
    let registry = server.registry();
    match (id, method.as_str()) {
        (None, "GET" | "HEAD") => {
            let items = registry.cluster_infos().await?;
            Ok(respond(StatusCode::OK, &json!({ "items": items })))
        }
        (None, "POST") => {
            let CreateRequest { id, limits } = request::parse(body)?;
            let created = registry.create_cluster(&id, limits.into()).await?;
            tracing::info!(cluster = created.id, uid = created.uid, "created a cluster");
            Ok(respond(StatusCode::CREATED, &created))
        }
        (Some(id), "GET" | "HEAD") => Ok(of_cluster(&registry.cluster_info(id).await?)),
        (Some(id), "PATCH") => {
            let LimitsRequest { limits } = request::parse(body)?;
            Ok(of_cluster(&registry.set_cluster_limits(id, limits.into()).await?))
        }
        (Some(id), "DELETE") => {
            server.delete_cluster(id).await?;
            Ok(respond(StatusCode::OK, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})))
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn of_cluster(info: &ClusterInfo) -> Response<ResponseBody> {
    respond(StatusCode::OK, info)
}

fn respond(code: StatusCode, value: &impl Serialize) -> Response<ResponseBody> {
    let mut json = serde_json::to_vec(value).expect("these types have only strings as keys");
    json.push(b'\n');
    let mut response = Response::new(full(json));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
