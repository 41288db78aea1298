//! Recomputes the usage of quotas when resources may have been released.
//!
//! The API server charges quotas when objects are created; this controller accounts for released resources, and for
//! charges of writes that failed. It counts the objects on the server, and writes with the resource version of the
//! quota that it read before: a concurrent charge causes a conflict and a retry.

mod plan;
mod view;

use std::sync::Arc;
use std::time::Duration;

use coracle_api::usage::Meter;
use coracle_base::Clock;
use coracle_meta::time::Time;
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, ResourcePath, Selection,
    Written,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use kube::api::ListParams;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::ownership_graph::{self, Change as GraphChange, Count, OwnershipGraph, Resource};
use crate::{Registration, Settings};
use plan::{Usage, plan};
use view::Quota;

/// Concurrent reconciles: the default of `--concurrent-resource-quota-syncs`.
const WORKERS: usize = 5;

/// Delay between a creation or change and the count. Creations are charged by the server; the count finds charges
/// during an earlier count, and resources released by a change.
const COUNT_DELAY: Duration = Duration::from_secs(1);

/// Retry interval after a conflict with a charge.
const CONFLICT: Duration = Duration::from_millis(20);

/// Page size of lists: the objects are whole, and only their sum is kept.
const PAGE: u32 = 500;

pub(crate) const REGISTRATION: Registration = Registration { name: "resourcequota-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let quotas: Informer<Quota> = manager.informer(Selection::of::<ResourceQuota>());
    let ownership_graph = ownership_graph::shared(manager);
    let reconcile = Counting {
        client: manager.client().clone(),
        quotas: Objects::of::<ResourceQuota>(manager.client()),
        ownership_graph: Arc::clone(&ownership_graph),
        clock: settings.clock.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("resourcequota_primary")
        .watches(&quotas, needs_count)
        .starts_after(ownership_graph.ready());
    let (removed, put) = (quotas.clone(), quotas);
    ownership_graph.subscribe(controller.queue(), Duration::ZERO, move |change| match change {
        GraphChange::Removed { namespace, resource, .. } => limiting(&removed, namespace, resource),
        GraphChange::Kinds(cluster) => {
            let quotas = removed.store().in_cluster(cluster);
            quotas.iter().filter(|quota| quota.counts_objects()).map(|quota| quota.key(cluster)).collect()
        }
        GraphChange::Put { .. } => Vec::new(),
    });
    ownership_graph.subscribe(controller.queue(), COUNT_DELAY, move |change| match change {
        GraphChange::Put { namespace, resource } => limiting(&put, namespace, resource),
        _ => Vec::new(),
    });
    manager.add(controller.workers(WORKERS));
}

/// A quota that is new, has changed limits, or has no usage in its status.
fn needs_count(change: &Change<Quota>) -> Option<ObjectKey> {
    let new = change.new.as_ref()?;
    let is_same = change.old.as_ref().is_some_and(|old| old.hard == new.hard);
    (!is_same || !new.is_counted).then(|| change.key.clone())
}

/// Quotas of a namespace that limit a kind.
fn limiting(quotas: &Informer<Quota>, namespace: &ObjectKey, resource: &Resource) -> Vec<ObjectKey> {
    let quotas = quotas.store().in_namespace(namespace.cluster(), namespace.name());
    if quotas.is_empty() {
        return Vec::new();
    }
    // The time does not affect which resources are counted.
    let meter = Meter::of(&resource.group, &resource.plural, Time(0));
    let limits = |quota: &&Arc<Quota>| quota.limits().any(|name| meter.counts(name));
    quotas.iter().filter(limits).map(|quota| quota.key(namespace.cluster())).collect()
}

struct Counting {
    client: Client,
    quotas: Objects,
    ownership_graph: Arc<OwnershipGraph>,
    clock: Clock,
}

impl Reconcile for Counting {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        // Read before counting; see the module's documentation.
        let Some(quota) = self.quotas.get::<Value>(key).await? else { return Ok(Action::AwaitChange) };
        let usage = self.count(key, &quota).await?;
        let Some(counted) = plan(quota, usage) else { return Ok(Action::AwaitChange) };
        match self.quotas.replace_subresource::<Written>(key, "status", &counted).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::AwaitChange),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::RequeueAfter(CONFLICT)),
            answer => answer.map(|_| Action::AwaitChange),
        }
    }
}

impl Counting {
    /// Usage of the resources that a quota limits.
    async fn count(&self, key: &ObjectKey, quota: &Value) -> kube::Result<Usage> {
        let mut usage = Usage::of(quota, self.now());
        for (resource, meter) in usage.metered() {
            let path = ResourcePath::new(&resource.group, "v1", &resource.plural);
            let params = ListParams::default().limit(PAGE);
            let sum = |page: Vec<Value>| page.iter().for_each(|object| usage.add(&meter, quota, object));
            Objects::at(&self.client, path).list_pages(key, &params, sum).await?;
        }
        for (name, resource) in usage.counted() {
            if let Some(number) = self.number(key, &resource).await? {
                usage.set_count(quota, name, number);
            }
        }
        Ok(usage)
    }

    /// Number of objects of a kind in the quota's namespace; `None` if the kind is unknown.
    async fn number(&self, key: &ObjectKey, resource: &Resource) -> kube::Result<Option<u32>> {
        let Some(namespace) = key.namespace_key() else { return Ok(None) };
        match self.ownership_graph.count(&namespace, resource) {
            None => Ok(None),
            Some(Count::Exactly(number)) => Ok(Some(number)),
            Some(Count::Shared) => {
                let kinds = self.ownership_graph.kinds(key.cluster()).await?;
                let Some(kind) = kinds.preferred().find(|kind| Resource::of(kind) == *resource) else {
                    return Ok(None);
                };
                let (mut number, params) = (0_usize, ListParams::default().limit(PAGE));
                let add = |page: Vec<IgnoredAny>| number += page.len();
                Objects::at(&self.client, kind.path()).list_pages(key, &params, add).await?;
                Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
            }
        }
    }

    fn now(&self) -> Time {
        Time(i64::try_from(self.clock.now().as_millis() / 1000).unwrap_or(i64::MAX))
    }
}
