//! The controllers of a cluster, one module each: a pure `plan` function, and as few effects around it as possible.
//!
//! They use the API only, so they also run against another server. To add one, write its module and add a line to
//! [`CONTROLLERS`].

mod active_namespaces;
mod api_error;
mod apiservice_availability;
pub mod bootstrap_token;
mod certificates;
mod cidr;
mod cluster_authentication_trust;
mod clusterrole_aggregation;
mod cronjob;
mod customresourcedefinition;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslice_mirroring;
mod flow_schema_status;
mod garbage_collector;
mod history;
mod horizontal_pod_autoscaler;
mod job;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod ownership_graph;
mod persistentvolume;
mod pod_control;
mod podgc;
mod replicaset;
mod resourcequota;
mod root_ca;
mod service_cidr;
mod service_pods;
mod serviceaccount;
mod serviceaccount_token;
mod statefulset;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;
mod validatingadmissionpolicy_status;
mod view;
mod volume_protection;

use std::fmt;
use std::sync::Arc;

use coracle_base::Clock;
use coracle_runtime::Manager;
use tokio::sync::watch;

pub use certificates::{CertificateSigner, SignError};
pub use cidr::{Cidr, ParseCidrError};
pub use cluster_authentication_trust::ClientTrust;
pub use node_ipam::{NodeCidrError, NodeCidrs};
pub use node_lifecycle::NodeMonitor;
pub use serviceaccount_token::{TokenSubject, TokenWriter};

/// Settings of the controllers that the API does not provide.
#[derive(Clone)]
pub struct Settings {
    /// Clock for timestamps in conditions.
    pub clock: Clock,
    /// Trusted certificates, which change when a certificate authority is replaced. None are published without it.
    pub trust: Option<watch::Receiver<Trust>>,
    /// Signer of certificate signing requests. They are not signed without it.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Issues tokens for secrets of service accounts. They get none without it.
    pub token_writer: Option<TokenWriter>,
    /// Settings of the node lifecycle controller.
    pub node_monitor: NodeMonitor,
    /// CIDR ranges for pods. Nodes get no blocks without it.
    pub node_cidrs: Option<NodeCidrs>,
}

impl Settings {
    /// Settings with only a clock: no certificates, no tokens, no CIDR blocks for nodes.
    pub fn new(clock: Clock) -> Self {
        let node_monitor = NodeMonitor::default();
        Self { clock, trust: None, signer: None, token_writer: None, node_monitor, node_cidrs: None }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Trusted certificates of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Certificate authorities of the API server, in PEM.
    pub root_ca: String,
    /// Authorities and names that authenticate clients.
    pub clients: ClientTrust,
}

/// A controller that can be registered.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Its name in kube-controller-manager.
    pub name: &'static str,
    register: fn(&mut Manager, &Settings),
}

/// Controllers that Kubernetes runs within kube-apiserver, which is incomplete without them.
pub const API_SERVER_CONTROLLERS: &[Registration] = &[
    apiservice_availability::REGISTRATION,
    cluster_authentication_trust::REGISTRATION,
    customresourcedefinition::finalizer::REGISTRATION,
    customresourcedefinition::naming::REGISTRATION,
    customresourcedefinition::registration::REGISTRATION,
    flow_schema_status::REGISTRATION,
    service_cidr::repair::REGISTRATION,
];

/// All other controllers, which Kubernetes runs in kube-controller-manager.
pub const CONTROLLERS: &[Registration] = &[
    bootstrap_token::cleaner::REGISTRATION,
    certificates::approver::REGISTRATION,
    certificates::cleaner::REGISTRATION,
    certificates::signer::REGISTRATION,
    clusterrole_aggregation::REGISTRATION,
    cronjob::REGISTRATION,
    daemonset::REGISTRATION,
    deployment::REGISTRATION,
    disruption::REGISTRATION,
    endpoints::REGISTRATION,
    endpointslice::REGISTRATION,
    endpointslice_mirroring::REGISTRATION,
    garbage_collector::REGISTRATION,
    horizontal_pod_autoscaler::REGISTRATION,
    job::REGISTRATION,
    namespace::REGISTRATION,
    podgc::REGISTRATION,
    node_ipam::REGISTRATION,
    node_lifecycle::REGISTRATION,
    persistentvolume::REGISTRATION,
    persistentvolume::expand::REGISTRATION,
    replicaset::REPLICATION_CONTROLLER,
    replicaset::REPLICA_SET,
    resourcequota::REGISTRATION,
    root_ca::REGISTRATION,
    service_cidr::REGISTRATION,
    serviceaccount::REGISTRATION,
    serviceaccount_token::REGISTRATION,
    statefulset::REGISTRATION,
    ttl_after_finished::REGISTRATION,
    taint_eviction::REGISTRATION,
    ttl::REGISTRATION,
    validatingadmissionpolicy_status::REGISTRATION,
    volume_protection::pv::REGISTRATION,
    volume_protection::pvc::REGISTRATION,
    volume_protection::vac::REGISTRATION,
];

/// Registers all controllers with the manager.
pub fn register(manager: &mut Manager, settings: &Settings) {
    // First, so that the controllers of the API server use it.
    ownership_graph::shared(manager);
    register_api_server(manager, settings);
    let help = "Controllers running in this process.";
    let running = manager.metrics().gauges("running_managed_controllers", help, ["name", "manager"]);
    for controller in CONTROLLERS {
        (controller.register)(manager, settings);
        running.with([controller.name, "kube-controller-manager"]).set(1.0);
    }
}

/// Registers only the controllers that are part of kube-apiserver.
pub fn register_api_server(manager: &mut Manager, settings: &Settings) {
    for controller in API_SERVER_CONTROLLERS {
        (controller.register)(manager, settings);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn api_server_alone_does_not_watch_every_kind() {
        let no_server = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let client = Client::new(service_fn(no_server), "default");
        let settings = Settings::new(Clock::system());
        let mut alone = Manager::all_clusters(client.clone());
        register_api_server(&mut alone, &settings);
        assert!(alone.existing::<ownership_graph::OwnershipGraph>().is_none());
        let mut all = Manager::all_clusters(client);
        register(&mut all, &settings);
        assert!(all.existing::<ownership_graph::OwnershipGraph>().is_some());
    }

    #[test]
    fn names_are_unique_and_equal_kubernetes_names() {
        let all = || API_SERVER_CONTROLLERS.iter().chain(CONTROLLERS);
        let mut names: Vec<_> = all().map(|controller| controller.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        assert!(names.iter().all(|name| name.ends_with("-controller")));
    }
}
