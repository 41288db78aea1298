//! A volume that is deleted stays for as long as it is bound to a claim.

use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};

use super::{carry_out, plan, unsettled};
use crate::view::{PersistentVolume, volumes};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let volumes = volumes(manager);
    let objects = Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client());
    let reconcile = Protection { objects, volumes: volumes.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("pvprotection")
        .watches(&volumes, |change| unsettled(change, FINALIZER));
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
            carry_out(planned, &self.objects, key, &volume.metadata, FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }
}
