//! Objects that controllers create in every namespace, for the initial namespaces: pods can be created in a new
//! cluster at once, and thousands of idle clusters need no writes.
//!
//! If one of them is deleted, or the certificates change, the controllers act as in any other namespace.

use serde_json::json;

use super::ServerInfo;
use super::objects::Seed;
use crate::kinds::core::config_map::ConfigMap;
use crate::kinds::core::service_account::ServiceAccount;

/// Field manager of these objects.
const CONTROLLERS: &str = "kube-controller-manager";

/// Name of the default service account.
const DEFAULT_ACCOUNT: &str = "default";

/// Name of the ConfigMap with the CA certificates by which pods verify the API server.
const ROOT_CA: &str = "kube-root-ca.crt";

/// As `Description` in upstream's `pkg/controller/certificates/rootcacertpublisher`.
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. \
    No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(super) fn seeds(namespaces: &[&'static str], server_info: &ServerInfo) -> Vec<Seed> {
    namespaces.iter().flat_map(|namespace| contents(namespace, server_info)).collect()
}

fn contents(namespace: &'static str, server_info: &ServerInfo) -> impl Iterator<Item = Seed> {
    let account = json!({"metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}});
    let account = Seed::new(&ServiceAccount, namespace, account).sent_by(CONTROLLERS);
    let root_ca = server_info.client_ca.as_ref().map(|certificates| {
        let annotations = json!({"kubernetes.io/description": ROOT_CA_DESCRIPTION});
        let metadata = json!({"name": ROOT_CA, "namespace": namespace, "annotations": annotations});
        let object = json!({"metadata": metadata, "data": {"ca.crt": certificates}});
        Seed::new(&ConfigMap, namespace, object).sent_by(CONTROLLERS)
    });
    std::iter::once(account).chain(root_ca)
}

/// Whether a controller restores objects of this kind and name.
pub(super) fn is_restored_by_controller(kind: &str, name: &str) -> bool {
    matches!((kind, name), ("ServiceAccount", DEFAULT_ACCOUNT) | ("ConfigMap", ROOT_CA))
}
