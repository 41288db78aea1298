//! Coracle's local provisioner: creates volumes that are directories on the node where a claim is first used.
//!
//! Such a volume is a `hostPath` of type `DirectoryOrCreate`, so the kubelet creates the directory for the first pod,
//! and has an affinity to the node. The directory is named after the volume, beneath the directory in the node's
//! annotation [`DIRECTORY_ANNOTATION`], or else beneath [`DIRECTORY`]. Deleting the volume deletes the object only;
//! directories without a volume are removed by the node.

use std::sync::Arc;

use serde_json::{Value, json};

use super::annotations::{BOUND_BY_CONTROLLER, PROVISIONED_BY, STORAGE};
use super::claim::{Plan, PlannedEvent};
use crate::view::{Node, PersistentVolumeClaim, StorageClass};

/// Name of this provisioner in storage classes. Used by the storage class that every cluster has from the start.
pub(super) const PROVISIONER: &str = "coracle.dev/local";

/// Annotation of a node with the directory for its volumes.
const DIRECTORY_ANNOTATION: &str = "coracle.dev/local-volumes-directory";

/// The default directory: within the data directory of a server that runs as root.
const DIRECTORY: &str = "/var/lib/coracle/volumes";

/// Label that node affinities of volumes use.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Access modes that a directory on one node supports.
const ACCESS_MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// Former in-tree provisioners, and the CSI drivers that replace them (`CSINameTranslator` in Kubernetes'
/// `csi-translation-lib`).
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// True for in-tree provisioners.
pub(super) fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with("kubernetes.io/")
}

/// Plans provisioning by the class's provisioner.
pub(super) fn by(class: &Arc<StorageClass>) -> Plan {
    let named = &*class.provisioner;
    if named == PROVISIONER {
        return Plan::Provision(Arc::clone(class));
    }
    let driver = MIGRATED.iter().find(|(in_tree, _)| *in_tree == named).map(|(_, driver)| *driver);
    if driver.is_none() && is_in_tree(named) {
        let message = format!("no volume plugin matched name: {named}");
        return Plan::Refuse(PlannedEvent::warning("ProvisioningFailed", message));
    }
    let provisioner = driver.unwrap_or(named);
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    Plan::Await {
        provisioner: provisioner.into(),
        event: PlannedEvent::normal("ExternalProvisioning", message),
    }
}

/// Name of the volume provisioned for a claim.
pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid())
}

/// Why no volume can be provisioned for a claim, and the message of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProvisionError {
    pub(super) event: String,
    /// True if another node may be suitable.
    pub(super) is_node_specific: bool,
}

/// The volume for a claim on its selected node.
pub(super) fn new_volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
) -> Result<Value, ProvisionError> {
    if let Some(event) = unsuitable(claim, class) {
        return Err(ProvisionError { event, is_node_specific: false });
    }
    let Some(node) = node else {
        let event = failed(class, "no node was selected; the class must wait for the first consumer");
        return Err(ProvisionError { event, is_node_specific: false });
    };
    if let Some(mode) = claim.spec.access_modes.iter().find(|mode| !ACCESS_MODES.contains(&&***mode)) {
        let event = failed(class, &format!("a directory on one node cannot be {mode}"));
        return Err(ProvisionError { event, is_node_specific: true });
    }
    Ok(volume_on(claim, class, node))
}

fn failed(class: &StorageClass, reason: &str) -> String {
    format!("Failed to provision volume with StorageClass {:?}: {reason}", class.metadata.name())
}

/// Claims that Kubernetes rejects before calling a plugin, and those that a directory cannot support.
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
