//! A VolumeAttributesClass that is deleted stays for as long as a claim or a volume names it.
//!
//! Only what the informers know counts, as in upstream: a claim that is created in the same moment may
//! find its class gone.

use std::sync::Arc;

use coracle_runtime::informer::View;
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection,
};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use super::objects::{Claim, Class, Protected, Volume};
use super::{carry_out, plan, pv, pvc, unsettled};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Claims and volumes by the classes they name.
const BY_CLASS: &str = "volumeAttributesClass";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "volumeattributesclass-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let classes = manager.informer(Selection::of::<VolumeAttributesClass>().metadata_only());
    let (claims, volumes) = (pvc::informer(manager), pv::informer(manager));
    claims.store().add_index(BY_CLASS, |claim| claim.classes.clone());
    volumes.store().add_index(BY_CLASS, |volume| volume.classes.clone());
    let reconcile = Protection {
        objects: Objects::of::<VolumeAttributesClass>(manager.client()),
        classes: classes.clone(),
        claims: claims.clone(),
        volumes: volumes.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .watches(&classes, |change| unsettled(change, FINALIZER))
        .watches(&claims, |change| released(change, |claim| &claim.classes))
        .watches(&volumes, |change| released(change, |volume| &volume.classes));
    manager.add(controller);
}

/// The classes that were named until now.
fn released<V: View>(change: &Change<V>, classes: fn(&V) -> &[String]) -> Vec<ObjectKey> {
    fn of<V>(side: &Option<Arc<V>>, classes: fn(&V) -> &[String]) -> &[String] {
        side.as_deref().map_or(&[], classes)
    }
    let (before, still) = (of(&change.old, classes), of(&change.new, classes));
    let key = |class: &String| ObjectKey::cluster_wide(change.key.cluster().clone(), class.as_str());
    before.iter().filter(|class| !still.contains(class)).map(key).collect()
}

struct Protection {
    objects: Objects,
    classes: Informer<Class>,
    claims: Informer<Claim>,
    volumes: Informer<Volume>,
}

impl Protection {
    fn is_used(&self, class: &ObjectKey) -> bool {
        let (cluster, name) = (class.cluster(), class.name());
        !self.claims.store().by_index(BY_CLASS, cluster, name).is_empty()
            || !self.volumes.store().by_index(BY_CLASS, cluster, name).is_empty()
    }
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if let Some(class) = self.classes.store().get(key) {
            let planned = plan(class.protected(), FINALIZER, || self.is_used(key));
            carry_out(planned, &self.objects, key, class.protected(), FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_looked_at_when_nobody_may_name_them_any_more() {
        let claim = |wanted: &str, current: &str| -> Option<Arc<Claim>> {
            let spec = json!({"volumeAttributesClassName": wanted});
            let status = json!({"currentVolumeAttributesClassName": current});
            Some(Arc::new(serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()))
        };
        let names = |old, new| {
            let key = ObjectKey::namespaced(ClusterId::default(), "n", "c");
            let keys = released(&Change { key, old, new }, |claim: &Claim| &claim.classes);
            keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(names(None, claim("gold", "")).is_empty());
        assert!(names(claim("silver", "silver"), claim("gold", "silver")).is_empty());
        assert_eq!(names(claim("gold", "silver"), claim("gold", "gold")), ["silver"]);
        assert_eq!(names(claim("gold", "silver"), None), ["gold", "silver"]);
    }
}
