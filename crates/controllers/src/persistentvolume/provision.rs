//! Volumes that are made for claims: directories on the node where a claim is first used.
//!
//! A volume of ours is a `hostPath` of type `DirectoryOrCreate`, so the node makes the directory when the
//! first pod comes, and has an affinity to that node. The directory is named after the volume, beneath the
//! one the node names in the annotation [`DIRECTORY_ANNOTATION`], or else beneath [`DIRECTORY`]. Deleting
//! such a volume deletes the object; a directory there that no volume names is the node's to remove.

use std::sync::Arc;

use serde_json::{Value, json};

use super::claim::{Plan, Told};
use super::terms::{BOUND_BY_CONTROLLER, PROVISIONED_BY, STORAGE};
use crate::view::{Node, PersistentVolumeClaim, StorageClass};

/// We, as a class of storage names us. The class that every cluster begins with does.
pub(super) const PROVISIONER: &str = "coracle.dev/local";

/// On a node: where it keeps the directories of volumes.
const DIRECTORY_ANNOTATION: &str = "coracle.dev/local-volumes-directory";

/// Where a node keeps them that says nothing: in the data directory of a server that root runs.
const DIRECTORY: &str = "/var/lib/coracle/volumes";

/// The label by which volumes know nodes.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// What a directory on one node can be used as.
const ACCESS_MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// Provisioners that were part of Kubernetes once, and the drivers that took over from them
/// (`CSINameTranslator` in upstream's `csi-translation-lib`).
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Whether a provisioner is one of Kubernetes itself.
pub(super) fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with("kubernetes.io/")
}

/// Who makes a volume of a class.
pub(super) fn by(class: &Arc<StorageClass>) -> Plan {
    let named = &*class.provisioner;
    if named == PROVISIONER {
        return Plan::Provision(Arc::clone(class));
    }
    let driver = MIGRATED.iter().find(|(in_tree, _)| *in_tree == named).map(|(_, driver)| *driver);
    if driver.is_none() && is_in_tree(named) {
        let message = format!("no volume plugin matched name: {named}");
        return Plan::Refuse(Told::warning("ProvisioningFailed", message));
    }
    let provisioner = driver.unwrap_or(named);
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    Plan::Await { provisioner: provisioner.into(), told: Told::normal("ExternalProvisioning", message) }
}

/// The name of the volume that is made for a claim.
pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid())
}

/// Why no volume can be made for a claim. `told` is what people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) told: String,
    /// Whether another node might do.
    pub(super) is_of_node: bool,
}

/// The volume for a claim on the node that was selected for it.
pub(super) fn new_volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
) -> Result<Value, Refusal> {
    if let Some(told) = unsuitable(claim, class) {
        return Err(Refusal { told, is_of_node: false });
    }
    let Some(node) = node else {
        let told = failed(class, "no node was selected; the class must wait for the first consumer");
        return Err(Refusal { told, is_of_node: false });
    };
    if let Some(mode) = claim.spec.access_modes.iter().find(|mode| !ACCESS_MODES.contains(&&***mode)) {
        let told = failed(class, &format!("a directory on one node cannot be {mode}"));
        return Err(Refusal { told, is_of_node: true });
    }
    Ok(volume_on(claim, class, node))
}

fn failed(class: &StorageClass, reason: &str) -> String {
    format!("Failed to provision volume with StorageClass {:?}: {reason}", class.metadata.name())
}

/// What upstream refuses before it asks a plugin, and what no directory can do.
fn unsuitable(claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<String> {
    if claim.spec.data_source.is_some() {
        return Some(format!(
            "plugin {PROVISIONER:?} is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
        ));
    }
    if !class.mount_options.is_empty() {
        return Some(format!(
            "Mount options are not supported by the provisioner but StorageClass {:?} has mount options [{}]",
            class.metadata.name(),
            class.mount_options.join(" ")
        ));
    }
    if claim.spec.selector.is_some() {
        return Some(failed(class, "claim.Spec.Selector is not supported for dynamic provisioning"));
    }
    let is_block = claim.spec.volume_mode.as_deref() == Some("Block");
    is_block.then(|| failed(class, "a directory is no block device"))
}

fn volume_on(claim: &PersistentVolumeClaim, class: &StorageClass, node: &Node) -> Value {
    let (name, metadata) = (volume_name(claim), &claim.metadata);
    let directory = node.metadata.annotations.get(DIRECTORY_ANNOTATION).unwrap_or(DIRECTORY);
    let hostname = node.metadata.labels.get(HOSTNAME_LABEL).unwrap_or(node.metadata.name());
    let on_node = json!({"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]});
    let claim_ref = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace(),
        "name": metadata.name(), "uid": metadata.uid(), "resourceVersion": metadata.resource_version(),
    });
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {BOUND_BY_CONTROLLER: "yes", PROVISIONED_BY: PROVISIONER},
        },
        "spec": {
            "capacity": {STORAGE: claim.spec.resources.requests.get(STORAGE)},
            "accessModes": claim.spec.access_modes,
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": class.reclaim_policy,
            "storageClassName": class.metadata.name(),
            "claimRef": claim_ref,
            "hostPath": {"path": format!("{}/{name}", directory.trim_end_matches('/')), "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    })
}
