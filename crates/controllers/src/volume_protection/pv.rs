//! A volume that is deleted stays for as long as it is bound to a claim.

use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection};
use k8s_openapi::api::core::v1::PersistentVolume;

use super::objects::{Protected, Volume};
use super::{carry_out, plan, unsettled};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let volumes = informer(manager);
    let reconcile =
        Protection { objects: Objects::of::<PersistentVolume>(manager.client()), volumes: volumes.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .watches(&volumes, |change| unsettled(change, FINALIZER));
    manager.add(controller);
}

/// All volumes.
pub(super) fn informer(manager: &mut Manager) -> Informer<Volume> {
    manager.informer(Selection::of::<PersistentVolume>())
}

struct Protection {
    objects: Objects,
    volumes: Informer<Volume>,
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if let Some(volume) = self.volumes.store().get(key) {
            let planned = plan(volume.protected(), FINALIZER, || volume.is_bound);
            carry_out(planned, &self.objects, key, volume.protected(), FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }
}
