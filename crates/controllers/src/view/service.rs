//! View of services.

use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::Deserialize;

/// Informer of all services.
pub(crate) fn services(manager: &mut Manager) -> Informer<Service> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::Service>())
}

/// View of a service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    pub(crate) r#type: Box<str>,
    /// Selects nothing if empty.
    pub(crate) selector: Labels,
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Box<str>,
    #[serde(rename = "clusterIPs")]
    pub(crate) cluster_ips: Box<[Box<str>]>,
    pub(crate) ports: Box<[ServicePort]>,
    pub(crate) ip_families: Box<[Box<str>]>,
    pub(crate) publish_not_ready_addresses: bool,
    pub(crate) traffic_distribution: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServicePort {
    pub(crate) name: Box<str>,
    /// Port of the service itself.
    pub(crate) port: i32,
    pub(crate) protocol: Box<str>,
    pub(crate) app_protocol: Option<Box<str>>,
    pub(crate) target_port: TargetPort,
}

/// Target port: a number, or the name of a container port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum TargetPort {
    Number(i32),
    Name(Box<str>),
}

impl Default for TargetPort {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl View for Service {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Service {
    /// True if it has a cluster IP.
    pub(crate) fn has_cluster_ip(&self) -> bool {
        !matches!(&*self.spec.cluster_ip, "" | "None")
    }

    /// True if its endpoints are determined by a selector.
    pub(crate) fn selects_pods(&self) -> bool {
        !self.spec.selector.is_empty() && &*self.spec.r#type != "ExternalName"
    }

    /// True if it selects objects with these labels.
    pub(crate) fn selects(&self, labels: &Labels) -> bool {
        let selector = &self.spec.selector;
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_requires_all_labels() {
        let service: Service = serde_json::from_value(json!({"spec": {
            "selector": {"app": "x", "tier": "web"}, "clusterIP": "10.0.0.1",
            "ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}],
        }}))
        .unwrap();
        let labels = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
        assert!(service.selects(&labels(&[("app", "x"), ("tier", "web"), ("more", "")])));
        assert!(!service.selects(&labels(&[("app", "x")])));
        assert!(service.has_cluster_ip() && service.selects_pods());
        let ports: Vec<_> = service.spec.ports.iter().map(|port| port.target_port.clone()).collect();
        assert_eq!(ports, [TargetPort::Name("http".into()), TargetPort::Number(8081)]);
        let none = Service::default();
        assert!(!none.selects(&labels(&[])) && !none.selects_pods() && !none.has_cluster_ip());
    }
}
