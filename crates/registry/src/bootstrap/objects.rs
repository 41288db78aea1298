//! The list of bootstrap objects, as their creators would send them.

use coracle_meta::gvk::split_api_version;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::{
    ServerInfo, api_services, authentication, endpoint, flow_control, namespace_contents, rbac, storage,
};
use crate::cluster::Cluster;
use crate::error::Result;
use crate::identity::Identity;
use crate::kind::Kind;
use crate::kinds::core::namespace::Namespace;
use crate::kinds::scheduling::priority_class::PriorityClass;
use crate::lifecycle::Write;

/// The initial namespaces.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The namespace of system components.
pub(super) const SYSTEM: &str = "kube-system";

/// Field manager of most bootstrap objects.
pub(super) const SERVER: &str = "kube-apiserver";

/// Fields that another manager applies to an object or subresource.
struct Applied {
    manager: &'static str,
    subresource: &'static str,
    fields: Value,
}

/// A bootstrap object before defaults and preparation.
pub(super) struct Seed {
    pub(super) kind: &'static dyn Kind,
    pub(super) namespace: &'static str,
    pub(super) object: Value,
    /// Field manager.
    pub(super) manager: &'static str,
    /// Fields that are applied afterwards.
    applied: Option<Applied>,
    /// A last change without a field manager.
    finish: fn(&mut Value),
}

impl Seed {
    /// An object of the server itself. `apiVersion` and `kind` are set here.
    pub(super) fn new(kind: &'static dyn Kind, namespace: &'static str, mut object: Value) -> Self {
        let declaration = kind.declaration();
        object["apiVersion"] = declaration.storage_api_version().into();
        object["kind"] = declaration.kind.as_ref().into();
        Self { kind, namespace, object, manager: SERVER, applied: None, finish: |_| {} }
    }

    pub(super) fn sent_by(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    pub(super) fn with_status(self, manager: &'static str, status: Value) -> Self {
        let fields = json!({"status": status});
        Self { applied: Some(Applied { manager, subresource: "status", fields }), ..self }
    }

    pub(super) fn with_applied(self, manager: &'static str, fields: Value) -> Self {
        Self { applied: Some(Applied { manager, subresource: "", fields }), ..self }
    }

    pub(super) fn finished_by(self, finish: fn(&mut Value)) -> Self {
        Self { finish, ..self }
    }

    /// The object in the stored form.
    pub(super) fn prepare(&self, scratch_cluster: &Cluster) -> Result<Value> {
        let api_version = self.kind.declaration().storage_api_version();
        let write = Write {
            kind: self.kind,
            api_version: &api_version,
            served_version: split_api_version(&api_version).1,
            namespace: self.namespace,
            subresource: "",
            manager: self.manager,
            requester: &Identity::server(),
            dry_run: false,
            audit: None,
            sent: None,
        };
        let mut object = scratch_cluster.prepared(&write, self.object.clone())?;
        if let Some(Applied { manager, subresource, fields }) = &self.applied {
            let write = Write { subresource, manager, ..write };
            object = scratch_cluster.with_applied(&write, object, fields)?;
        }
        (self.finish)(&mut object);
        Ok(object)
    }
}

/// All bootstrap objects.
pub(super) fn all(scratch_cluster: &Cluster, server_info: &ServerInfo) -> impl Iterator<Item = Seed> {
    let mut seeds = namespaces();
    seeds.extend(namespace_contents::seeds(&NAMESPACES, server_info));
    seeds.extend(priority_classes());
    seeds.extend(storage::seeds());
    seeds.extend(endpoint::seeds(scratch_cluster, server_info.endpoint.as_ref()));
    seeds.extend(flow_control::seeds(scratch_cluster.now()));
    seeds.extend(api_services::seeds());
    seeds.extend(authentication::seeds(scratch_cluster.now(), server_info));
    seeds.into_iter().chain(rbac::seeds())
}

/// A condition that is set from the beginning.
pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": now.to_string(), "reason": reason, "message": message})
}

fn namespaces() -> Vec<Seed> {
    let seed = |name: &str| Seed::new(&Namespace, "", json!({"metadata": {"name": name}}));
    NAMESPACES.into_iter().map(seed).collect()
}

fn priority_classes() -> [Seed; 2] {
    let seed = |name: &str, value: i64, description: &str| {
        let object = json!({"metadata": {"name": name}, "value": value, "description": description});
        Seed::new(&PriorityClass, "", object)
    };
    [
        seed(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        seed(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
}
