//! Maintains an Endpoints object for every service with a selector, the API before EndpointSlices. Its clients are
//! old, but many.
//!
//! The object has the name of its service and is deleted with it, even if a user created it. Kubernetes deletes all
//! Endpoints without a service when it starts; here only those of this controller are deleted, at any time.

mod plan;
mod subsets;

use coracle_runtime::informer::ObjectMetadata;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference, Written,
};
use k8s_openapi::api::core::v1::Endpoints as WholeEndpoints;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::service_pods::{TriggerTimes, selected_pods, services_of};
use crate::view::{Endpoints, Pod, Service, endpoints, pods, services};
use crate::{Registration, Settings, api_error};
use plan::{Desired, plan};
pub(crate) use subsets::repack;

/// Label with the managing controller, and this controller's name there and in events.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

/// Concurrent reconciles: the default of `--concurrent-endpoint-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration = Registration { name: "endpoints-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (services, pods, endpoints) = (services(manager), pods(manager), endpoints(manager));
    let reconcile = EndpointsController {
        objects: Objects::of::<WholeEndpoints>(manager.client()),
        service_objects: Objects::of::<k8s_openapi::api::core::v1::Service>(manager.client()),
        services: services.clone(),
        pods: pods.clone(),
        endpoints: endpoints.clone(),
        own_writes: ReadYourWrites::default(),
        trigger_times: TriggerTimes::default(),
        recorder: manager.recorder(CONTROLLER),
    };
    let of_pods = services.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("endpoint")
        .watches(&services, |change| [change.key.clone()])
        .watches(&pods, move |change| services_of(change, of_pods.store()))
        .watches(&endpoints, deleted_or_managed)
        .workers(WORKERS);
    manager.add(controller);
}

/// Endpoints that were deleted, or that this controller manages.
fn deleted_or_managed(change: &Change<Endpoints>) -> Option<ObjectKey> {
    let ours = |endpoints: &Endpoints| endpoints.metadata.labels.get(MANAGED_BY) == Some(CONTROLLER);
    let touched = change.old.iter().chain(&change.new).any(|endpoints| ours(endpoints));
    (change.new.is_none() || touched).then(|| change.key.clone())
}

struct EndpointsController {
    objects: Objects,
    service_objects: Objects,
    services: Informer<Service>,
    pods: Informer<Pod>,
    endpoints: Informer<Endpoints>,
    own_writes: ReadYourWrites,
    trigger_times: TriggerTimes,
    recorder: Recorder,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    StaleCache(#[from] coracle_runtime::StaleCache),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Reconcile for EndpointsController {
    type Error = SyncError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, SyncError> {
        self.own_writes.seen(key, &self.endpoints).await?;
        let current = self.endpoints.store().get(key);
        let Some(service) = self.services.store().get(key) else {
            self.trigger_times.forget(key);
            let stale = current.filter(|stale| !stale.metadata.is_terminating());
            // The watch of Endpoints may be ahead of that of services, so the service is read from the server.
            if let Some(stale) = stale
                && self.service_objects.get::<Written>(key).await?.is_none()
            {
                let this_one = DeleteParams::default().preconditions(kube::api::Preconditions {
                    uid: Some(stale.metadata.uid().to_owned()),
                    resource_version: None,
                });
                self.objects.delete(key, &this_one).await?;
                self.own_writes.note_deleted(key, key.clone(), stale.metadata.uid());
            }
            return Ok(Action::AwaitChange);
        };
        if !service.selects_pods() {
            return Ok(Action::AwaitChange);
        }
        let pods = selected_pods(&service, key, self.pods.store());
        let trigger_time = self.trigger_times.observe(key, &service, &pods);
        if let Some(desired) = plan(&service, &pods, current.as_deref(), trigger_time) {
            let current = current.as_ref().map(|current| &current.metadata);
            self.write(key, current, &desired).await?;
        }
        Ok(Action::AwaitChange)
    }
}

impl EndpointsController {
    async fn write(
        &self,
        key: &ObjectKey,
        current: Option<&ObjectMetadata>,
        desired: &Desired,
    ) -> Result<(), SyncError> {
        let body = body(key, current, desired);
        let written = match current {
            None => self.objects.create::<Written>(key, &body).await,
            Some(_) => self.objects.replace::<Written>(key, &body).await,
        };
        match written {
            Ok(written) => self.own_writes.note(key, &written.metadata.resource_version),
            // The namespace is terminating: no object can be created in it.
            Err(error) if current.is_none() && api_error::namespace_is_gone_or_terminating(&error) => {}
            Err(error) => {
                self.warn(key, current, &error);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn warn(&self, key: &ObjectKey, current: Option<&ObjectMetadata>, error: &kube::Error) {
        let (at, error) = (format!("{}/{}", key.namespace(), key.name()), api_error::message(error));
        let (reason, message) = match current {
            None => {
                ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {at}: {error}"))
            }
            Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {at}: {error}")),
        };
        let mut about = Reference::to("v1", "Endpoints", current.unwrap_or(&ObjectMetadata::default()));
        (about.namespace, about.name) = (key.namespace().into(), key.name().into());
        self.recorder.event(key.cluster(), about, EventType::Warning, reason, message);
    }
}

fn body(key: &ObjectKey, current: Option<&ObjectMetadata>, desired: &Desired) -> Value {
    let mut metadata = json!({
        "name": key.name(),
        "namespace": key.namespace(),
        "labels": desired.labels,
        "annotations": desired.annotations,
    });
    if let Some(current) = current {
        metadata["resourceVersion"] = current.resource_version().into();
        metadata["finalizers"] = json!(current.finalizers);
        metadata["ownerReferences"] = json!(current.owner_references);
    }
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": desired.subsets})
}
