//! Clusters that are deleted while controllers work on their objects.

use kube::Client;

use crate::key::ClusterId;

/// The kind in the details of the server's refusal.
const CLUSTER_KIND: &str = "clusters";

const NOT_FOUND: u16 = 404;

/// Whether the server refused a request because its cluster does not exist. There is nothing left to do in it.
pub fn cluster_not_found(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_cluster = status.details.as_ref().is_some_and(|details| details.kind == CLUSTER_KIND);
    status.code == NOT_FOUND && names_cluster
}

/// Whether a cluster was deleted. False if the server does not answer.
pub(crate) async fn is_deleted(client: &Client, cluster: &ClusterId) -> bool {
    // The default cluster always exists, and one server may know no others.
    if *cluster == ClusterId::default() || cluster.is_all_clusters() {
        return false;
    }
    let request = http::Request::get(format!("{}/version", cluster.path())).body(Vec::new());
    let Ok(request) = request else { return false };
    let answer = client.request_text(request).await;
    answer.is_err_and(|error| cluster_not_found(&error))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_cluster_is_not_taken_for_a_missing_object() {
        let error = |kind: &str| {
            let status = json!({"code": 404, "reason": "NotFound", "details": {"kind": kind, "name": "a"}});
            kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
        };
        assert!(cluster_not_found(&error("clusters")));
        assert!(!cluster_not_found(&error("pods")));
    }
}
