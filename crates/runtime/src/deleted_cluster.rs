//! Detection of clusters that are deleted while controllers work on their objects.

use kube::Client;

use crate::key::ClusterId;

/// Value of `details.kind` in the server's 404 for a missing cluster.
const CLUSTER_KIND: &str = "clusters";

const NOT_FOUND: u16 = 404;

/// True if the server rejected a request because its cluster does not exist, so that nothing is left to do in it.
pub fn cluster_not_found(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_cluster = status.details.as_ref().is_some_and(|details| details.kind == CLUSTER_KIND);
    status.code == NOT_FOUND && names_cluster
}

/// True if the server reports that a cluster does not exist. False if it does not answer.
pub(crate) async fn is_deleted(client: &Client, cluster: &ClusterId) -> bool {
    // The default cluster always exists, and a server other than Coracle has no others.
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
    fn cluster_not_found_ignores_missing_objects() {
        let error = |kind: &str| {
            let status = json!({"code": 404, "reason": "NotFound", "details": {"kind": kind, "name": "a"}});
            kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
        };
        assert!(cluster_not_found(&error("clusters")));
        assert!(!cluster_not_found(&error("pods")));
    }
}
