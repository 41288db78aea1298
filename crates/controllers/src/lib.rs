//! The controllers of a cluster, one module each: a pure `plan` that says what is to be done, and as
//! little as possible around it that does it.
//!
//! They act through the API like anyone else, so they run as well against another server. To add one,
//! write its module and a line in [`CONTROLLERS`].

mod active_namespaces;
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
mod inventory;
mod job;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod persistentvolume;
mod pod_control;
mod podgc;
mod refusal;
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

/// What controllers need to know beyond what the API tells.
#[derive(Clone)]
pub struct Settings {
    /// What times in conditions are read from.
    pub clock: Clock,
    /// What is trusted, which changes when an authority is replaced. None if the server has no
    /// certificates, and then none are published.
    pub trust: Option<watch::Receiver<Trust>>,
    /// What signs certificates that clients ask for. None if nothing does.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Who writes tokens of service accounts into secrets. None if nobody can.
    pub token_writer: Option<TokenWriter>,
    /// How nodes are watched over.
    pub node_monitor: NodeMonitor,
    /// From where nodes get the addresses of their pods. None if not from here.
    pub node_cidrs: Option<NodeCidrs>,
}

impl Settings {
    /// Nothing but a clock: no certificates, no tokens, no addresses for nodes.
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

/// Whom clients and servers of the cluster trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The certificates by which pods recognize the API server, in PEM.
    pub root_ca: String,
    /// By what clients are known.
    pub clients: ClientTrust,
}

/// A controller that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Its name in upstream's controller manager.
    pub name: &'static str,
    register: fn(&mut Manager, &Settings),
}

/// Those that upstream's API server runs itself: it is not whole without them.
pub const OF_THE_API_SERVER: &[Registration] = &[
    apiservice_availability::REGISTRATION,
    cluster_authentication_trust::REGISTRATION,
    customresourcedefinition::finalizer::REGISTRATION,
    customresourcedefinition::naming::REGISTRATION,
    customresourcedefinition::registration::REGISTRATION,
    flow_schema_status::REGISTRATION,
    service_cidr::repair::REGISTRATION,
];

/// All others, which upstream has in its controller manager.
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

/// Hands every controller to the manager.
pub fn register(manager: &mut Manager, settings: &Settings) {
    // First, so that the controllers of the API server use it.
    inventory::shared(manager);
    register_api_server(manager, settings);
    let help = "Which controllers run where.";
    let running = manager.metrics().gauges("running_managed_controllers", help, ["name", "manager"]);
    for controller in CONTROLLERS {
        (controller.register)(manager, settings);
        running.with([controller.name, "kube-controller-manager"]).set(1.0);
    }
}

/// Hands only those to the manager without which an API server is not whole.
pub fn register_api_server(manager: &mut Manager, settings: &Settings) {
    for controller in OF_THE_API_SERVER {
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
        let nobody = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let client = Client::new(service_fn(nobody), "default");
        let settings = Settings::new(Clock::system());
        let mut alone = Manager::everywhere(client.clone());
        register_api_server(&mut alone, &settings);
        assert!(alone.existing::<inventory::Inventory>().is_none());
        let mut all = Manager::everywhere(client);
        register(&mut all, &settings);
        assert!(all.existing::<inventory::Inventory>().is_some());
    }

    #[test]
    fn names_are_unique_and_upstreams() {
        let all = || OF_THE_API_SERVER.iter().chain(CONTROLLERS);
        let mut names: Vec<_> = all().map(|controller| controller.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        assert!(names.iter().all(|name| name.ends_with("-controller")));
    }
}
