//! Nodes in ten zones, and pods of ten applications with different constraints.

use std::fmt;

use clap::ValueEnum;
use serde_json::{Value, json};

const APPLICATIONS: usize = 10;
const ZONES: usize = 10;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Scheduling constraints of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Resource requests only.
    Plain,
    /// Even spread over zones, preferred spread over nodes.
    Spread,
    /// Near pods of the same application, but not on the same node.
    Affinity,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Spread, Self::Affinity];

    /// Target in pods per second.
    pub(crate) fn aim(self) -> f64 {
        match self {
            Self::Plain => 2_000.0,
            Self::Spread => 500.0,
            Self::Affinity => 200.0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain pods",
            Self::Spread => "pods with topology spread",
            Self::Affinity => "pods with inter-pod affinity",
        })
    }
}

pub(crate) fn node(number: usize) -> Value {
    let name = format!("node-{number}");
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: format!("zone-{}", number % ZONES)}},
        "status": {"capacity": room, "allocatable": room},
    })
}

pub(crate) fn pod(kind: Kind, number: usize) -> Value {
    let name = format!("pod-{number}");
    let app = format!("app-{}", number % APPLICATIONS);
    let selector = json!({"matchLabels": {"app": app}});
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        // For the decisions alone; a server assigns another uid.
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "web", "image": "example.com/web:1",
                            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            // No kubelet runs these nodes, so they are not ready.
            "tolerations": [{"operator": "Exists"}],
        },
    });
    let near = |key: &str| json!({"topologyKey": key, "labelSelector": selector});
    match kind {
        Kind::Plain => {}
        Kind::Spread => {
            let spread = |key: &str, when: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector});
            pod["spec"]["topologySpreadConstraints"] =
                json!([spread(ZONE, "DoNotSchedule"), spread(HOSTNAME, "ScheduleAnyway")]);
        }
        Kind::Affinity => {
            let away = json!({"requiredDuringSchedulingIgnoredDuringExecution": [near(HOSTNAME)]});
            let liked = json!([{"weight": 10, "podAffinityTerm": near(ZONE)}]);
            let together = json!({"preferredDuringSchedulingIgnoredDuringExecution": liked});
            pod["spec"]["affinity"] = json!({"podAntiAffinity": away, "podAffinity": together});
        }
    }
    pod
}
