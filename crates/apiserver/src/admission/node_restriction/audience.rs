//! Checks whether a volume of a pod names the audience of a token: a projected token, or the CSI driver of a volume.

use coracle_registry::kinds::core::persistent_volume::PersistentVolume;
use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
use coracle_registry::kinds::core::pod::references::claim_name;
use coracle_registry::kinds::storage::csi_driver::CsiDriver;
use coracle_registry::{Error, view};
use serde_json::Value;

use super::Request;
use crate::status::Refusal;

/// The CSI drivers that replaced in-tree volume sources (`k8s.io/csi-translation-lib`).
const DRIVERS: &[(&str, &str)] = &[
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

/// Returns true if a volume names the audience. Errors are returned only if no volume does.
pub(super) async fn is_named(request: &Request<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut faults = Vec::new();
    for volume in view::items(pod, &["spec", "volumes"]) {
        let projected = view::items(volume, &["projected", "sources"]).iter();
        let mut tokens = projected.filter_map(|source| view::at(source, &["serviceAccountToken"]));
        if tokens.any(|token| view::text(token, &["audience"]) == audience) {
            return Ok(true);
        }
        match is_named_by_driver(request, pod, volume, audience).await {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => faults.push(Refusal::from(error).status().message.clone()),
        }
    }
    match faults.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

async fn is_named_by_driver(
    request: &Request<'_>,
    pod: &Value,
    volume: &Value,
    audience: &str,
) -> Result<bool, Error> {
    let name = match claim_name(pod, volume) {
        Some(claim) => driver_of_claim(request, &claim).await?,
        None => driver(volume).to_owned(),
    };
    if name.is_empty() {
        return Ok(false);
    }
    let driver = request.find(&CsiDriver, "", &name).await?;
    let mut wanted = view::items(&driver, &["spec", "tokenRequests"]).iter();
    Ok(wanted.any(|token| view::text(token, &["audience"]) == audience))
}

async fn driver_of_claim(request: &Request<'_>, claim: &str) -> Result<String, Error> {
    let claim = request.find(&PersistentVolumeClaim, request.attributes.write.namespace, claim).await?;
    let volume = request.find(&PersistentVolume, "", view::text(&claim, &["spec", "volumeName"])).await?;
    Ok(driver(&volume["spec"]).to_owned())
}

/// The CSI driver of a volume source; empty if there is none.
fn driver(source: &Value) -> &str {
    let own = view::text(source, &["csi", "driver"]);
    if !own.is_empty() {
        return own;
    }
    let found = DRIVERS.iter().find(|(kind, _)| view::at(source, &[kind]).is_some());
    found.map_or("", |(_, driver)| driver)
}
