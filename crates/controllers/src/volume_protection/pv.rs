//! Protects volumes that are bound to a claim.

use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};

use super::{apply, needs_finalizer_change, plan};
use crate::view::{PersistentVolume, volumes};
use crate::{Registration, Settings};

/// Finalizer of this controller.
const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let volumes = volumes(manager);
    let objects = Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client());
    let reconcile = Protection { objects, volumes: volumes.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("pvprotection")
        .watches(&volumes, |change| needs_finalizer_change(change, FINALIZER));
    manager.add(controller);
}

struct Protection {
    objects: Objects,
    volumes: Informer<PersistentVolume>,
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if let Some(volume) = self.volumes.store().get(key) {
            let planned = plan(&volume.metadata, FINALIZER, || &*volume.status.phase == "Bound");
            apply(planned, &self.objects, key, &volume.metadata, FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }
}
