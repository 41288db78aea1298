//! ServiceCIDRs: ranges of service addresses. A range becomes ready once it has a finalizer, and is kept while
//! services have addresses of no other range. [`repair`] keeps services and IPAddresses consistent.

mod objects;
mod plan;
pub(crate) mod repair;

use std::sync::Arc;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, Reconcile, Recorder,
    Reference, Written,
};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::view::rfc3339;
use crate::{Registration, Settings, api_error};
use objects::{IpAddress, ServiceCidr, ip_addresses, service_cidrs};
use plan::{FINALIZER, Ready, is_blocked, plan};

pub(crate) const REGISTRATION: Registration = Registration { name: "service-cidr-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (ranges, addresses) = (service_cidrs(manager), ip_addresses(manager));
    let reconcile = ServiceCidrs {
        objects: Objects::of::<k8s_openapi::api::networking::v1::ServiceCIDR>(manager.client()),
        address_objects: Objects::of::<k8s_openapi::api::networking::v1::IPAddress>(manager.client()),
        ranges: ranges.clone(),
        addresses: addresses.clone(),
        recorder: manager.recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
    };
    let (beside, around) = (ranges.clone(), ranges.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("ipaddresses")
        .watches(&ranges, move |change| overlapping(change, &beside))
        .watches(&addresses, move |change| containing(change, &around));
    manager.add(controller);
}

/// A range, and those that overlap with it: their deletion may depend on it.
fn overlapping(change: &Change<ServiceCidr>, ranges: &Informer<ServiceCidr>) -> Vec<ObjectKey> {
    let mine: Vec<_> = change.old.iter().chain(&change.new).flat_map(|range| range.cidrs()).collect();
    let touches = |other: &ServiceCidr| other.cidrs().any(|cidr| mine.iter().any(|own| own.overlaps(&cidr)));
    let all = ranges.store().in_cluster(change.key.cluster());
    let others = all.iter().filter(|other| other.name() != change.key.name() && touches(other));
    let key = |range: &str| ObjectKey::cluster_wide(change.key.cluster().clone(), range);
    others.map(|range| key(range.name())).chain([change.key.clone()]).collect()
}

/// Ranges that contain an address that was added or deleted.
fn containing(change: &Change<IpAddress>, ranges: &Informer<ServiceCidr>) -> Vec<ObjectKey> {
    if change.old.is_some() && change.new.is_some() {
        return Vec::new();
    }
    let address = change.old.iter().chain(&change.new).find(|address| address.is_allocated());
    let Some(ip) = address.and_then(|address| address.address()) else { return Vec::new() };
    let cluster = change.key.cluster();
    let all = ranges.store().in_cluster(cluster).into_iter();
    // Only the deletion of a range depends on its addresses.
    all.filter(|range| range.metadata.is_terminating() && range.offers(ip))
        .map(|range| ObjectKey::cluster_wide(cluster.clone(), range.name()))
        .collect()
}

struct ServiceCidrs {
    objects: Objects,
    address_objects: Objects,
    ranges: Informer<ServiceCidr>,
    addresses: Informer<IpAddress>,
    recorder: Recorder,
    clock: Clock,
}

impl Reconcile for ServiceCidrs {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(range) = self.ranges.store().get(key) else { return Ok(Action::AwaitChange) };
        let all = self.ranges.store().in_cluster(key.cluster());
        let addresses = || self.addresses.store().in_cluster(key.cluster());
        let mut planned = plan(&range, &all, addresses, self.clock.now());
        // Each kind is watched separately: the informer may not have seen the last addresses of the range yet.
        if planned.remove_finalizer && self.has_orphans(key, &range).await? {
            planned.remove_finalizer = false;
        }
        if planned.add_finalizer || planned.remove_finalizer {
            let mut finalizers: Vec<&str> = range.metadata.finalizers.iter().map(|name| &**name).collect();
            finalizers.retain(|name| *name != FINALIZER);
            finalizers.extend(planned.add_finalizer.then_some(FINALIZER));
            self.write_finalizers(key, &range, &finalizers).await?;
        }
        if let Some(ready) = planned.condition
            && let Err(error) = self.write_condition(key, ready).await
        {
            let about = Reference::to("networking.k8s.io/v1", "ServiceCIDR", &range.metadata);
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            let (kind, reason) = (EventType::Warning, "KubernetesServiceCIDRError");
            self.recorder.event(key.cluster(), about, kind, reason, message);
            return Err(error);
        }
        Ok(planned.wait.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

impl ServiceCidrs {
    /// True if services on the server have addresses of this range alone.
    async fn has_orphans(&self, key: &ObjectKey, range: &ServiceCidr) -> Result<bool, kube::Error> {
        let all: Vec<ServiceCidr> = self.objects.list(key, &ListParams::default()).await?;
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();
        let addresses: Vec<IpAddress> = self.address_objects.list(key, &ListParams::default()).await?;
        Ok(is_blocked(range, &all, addresses.iter()))
    }

    async fn write_finalizers(
        &self,
        key: &ObjectKey,
        range: &ServiceCidr,
        finalizers: &[&str],
    ) -> Result<(), kube::Error> {
        let version = range.metadata.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        match self.objects.patch::<Written>(key, &PatchParams::default(), &Patch::Merge(patch)).await {
            // It is gone or has changed, and its event enqueues it again.
            Err(error) if api_error::is_outdated(&error) => Ok(()),
            written => written.map(drop),
        }
    }

    async fn write_condition(&self, key: &ObjectKey, ready: Ready) -> Result<(), kube::Error> {
        let condition = json!({
            "type": "Ready",
            "status": ready.status,
            "reason": ready.reason,
            "message": ready.message,
            "lastTransitionTime": rfc3339(self.clock.now()),
        });
        let applied = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": key.name()},
            "status": {"conditions": [condition]},
        });
        let params = PatchParams::apply(REGISTRATION.name).force();
        let patch = Patch::Apply(applied);
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            Err(error) if api_error::is_missing(&error) => Ok(()),
            written => written.map(drop),
        }
    }
}
