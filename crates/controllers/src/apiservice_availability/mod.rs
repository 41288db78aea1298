//! Sets the `Available` condition of every APIService. An APIService with a service is never available: this server
//! does not proxy to other API servers yet, and answers 503 for their versions.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::customresourcedefinition::registration::{Registered, registered};
use crate::view::{
    EndpointSlice, SERVICE_NAME, SLICES_BY_SERVICE, Service, endpoint_slices, rfc3339, services,
};
use crate::{Registration, Settings};
use plan::{AVAILABLE, Verdict, judge};

pub(crate) use plan::{Availability, Status};

/// Field manager of the condition.
const MANAGER: &str = "kube-apiserver";

/// Index of APIServices by the service that they name, as `namespace/name`.
const BY_SERVICE: &str = "service";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "apiservice-status-remote-available-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let registered = registered(manager);
    registered.store().add_index(BY_SERVICE, |registered: &Registered| {
        let service = registered.availability.as_ref().and_then(|found| found.service.as_ref());
        service.map(|service| format!("{}/{}", service.namespace, service.name)).into_iter().collect()
    });
    let (services, slices) = (services(manager), endpoint_slices(manager));
    let reconcile = RemoteAvailability {
        objects: Objects::of::<APIService>(manager.client()),
        registered: registered.clone(),
        services: services.clone(),
        slices: slices.clone(),
        clock: settings.clock.clone(),
    };
    let (of_services, of_slices) = (registered.clone(), registered.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("RemoteAvailability")
        .watches(&registered, |change| Some(change.key.clone()))
        .watches(&services, move |change| affected(&of_services, &change.key, change.key.name()))
        .watches(&slices, move |change| of_slice(&of_slices, change));
    manager.add(controller);
}

/// APIServices that name a service in the namespace of a changed object.
fn affected(registered: &Informer<Registered>, changed: &ObjectKey, service: &str) -> Vec<ObjectKey> {
    let service = format!("{}/{service}", changed.namespace());
    let found = registered.store().by_index(BY_SERVICE, changed.cluster(), &service);
    let key = |one: &Arc<Registered>| ObjectKey::cluster_wide(changed.cluster().clone(), &*one.metadata.name);
    found.iter().map(key).collect()
}

fn of_slice(registered: &Informer<Registered>, change: &Change<EndpointSlice>) -> Vec<ObjectKey> {
    let states = [&change.old, &change.new].into_iter().flatten();
    let services = states.filter_map(|slice| slice.metadata.labels.get(SERVICE_NAME));
    services.flat_map(|service| affected(registered, &change.key, service)).collect()
}

struct RemoteAvailability {
    objects: Objects,
    registered: Informer<Registered>,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    clock: Clock,
}

impl RemoteAvailability {
    fn judge(&self, key: &ObjectKey, availability: &Availability) -> Verdict {
        let Some(reference) = &availability.service else { return judge(availability, None, &[]) };
        let (namespace, name) = (&*reference.namespace, &*reference.name);
        let service = ObjectKey::namespaced(key.cluster().clone(), namespace, name);
        let service = self.services.store().get(&service);
        let slices =
            self.slices.store().by_index(SLICES_BY_SERVICE, key.cluster(), &format!("{namespace}/{name}"));
        judge(availability, service.as_deref(), &slices)
    }

    /// Patches the condition. Its time is that of the last change of the status.
    async fn write(
        &self,
        key: &ObjectKey,
        availability: &Availability,
        verdict: &Verdict,
    ) -> Result<(), kube::Error> {
        let same = availability.condition.as_ref().filter(|found| *found.status == *verdict.status);
        let since = same.and_then(|found| found.last_transition_time).unwrap_or_else(|| self.clock.now());
        let condition = json!({
            "type": AVAILABLE,
            "status": verdict.status,
            "lastTransitionTime": rfc3339(since),
            "reason": verdict.reason,
            "message": verdict.message,
        });
        // An Update and not an Apply in managedFields, as in kube-aggregator. Other conditions stay, because
        // conditions are merged by type.
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            // The APIService has been deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }
}

impl Reconcile for RemoteAvailability {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(registered) = self.registered.store().get(key) else { return Ok(Action::AwaitChange) };
        let Some(availability) = &registered.availability else { return Ok(Action::AwaitChange) };
        let verdict = self.judge(key, availability);
        let is_said = availability.condition.as_ref().is_some_and(|found| verdict.matches(found));
        if !is_said {
            self.write(key, availability, &verdict).await?;
        }
        Ok(Action::AwaitChange)
    }
}
