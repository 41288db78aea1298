//! Garbage collector: deletes objects whose owners are all gone.
//!
//! An object deleted with foreground propagation waits until its dependents are gone, one deleted with orphan
//! propagation until their owner references to it are removed. Owner references come from [`crate::ownership_graph`];
//! decisions are made on the current object on the server.
//!
//! Owners that were observed are assumed to exist: if they have been deleted since, their deletion event enqueues
//! their dependents again. So the server is queried only for owners that were never observed.

mod act;
mod plan;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use coracle_runtime::{
    Action, ClusterId, Controller, EventType, Manager, ObjectKey, Objects, Reconcile, Recorder, Reference,
};
use kube::Client;

use crate::ownership_graph::{
    self, Class, Existence, Identity, Item, Object, OwnershipGraph, ServedKind, Uid,
};
use crate::{Registration, Settings};
use plan::{Situation, plan};

/// Concurrent reconciles: the default of `--concurrent-gc-syncs`.
const WORKERS: usize = 20;

/// Retry interval for an owner that exists but was not observed yet: its event is on the way.
const UNSEEN: Duration = Duration::from_secs(1);

/// Retry interval for dependents of a kind that is not served or cannot be watched. New kinds enqueue them earlier.
const UNRESOLVED: Duration = Duration::from_secs(300);

/// Retry interval after a conflict.
const CONFLICT: Duration = Duration::from_millis(20);

pub(crate) const REGISTRATION: Registration = Registration { name: "garbage-collector-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let ownership_graph = ownership_graph::shared(manager);
    let reconcile = Collector {
        client: manager.client().clone(),
        recorder: manager.recorder(REGISTRATION.name),
        ownership_graph: Arc::clone(&ownership_graph),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("garbage_collector_attempt_to_delete")
        .starts_after(ownership_graph.ready())
        .workers(WORKERS);
    ownership_graph.set_collector(controller.queue());
    manager.add(controller);
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
#[error("cannot garbage collect {identity}")]
pub(crate) struct Error {
    identity: Arc<Identity>,
    source: kube::Error,
}

struct Collector {
    client: Client,
    recorder: Recorder,
    ownership_graph: Arc<OwnershipGraph>,
}

/// Result of looking up an owner on the server.
enum OwnerLookup {
    Exists(Object),
    /// It does not exist under this identity.
    Absent(Identity),
    /// Its kind is not served.
    UnknownKind,
    /// The owner's kind is namespaced and the dependent is cluster-scoped, so the owner's namespace is unknown.
    Misplaced,
}

impl Reconcile for Collector {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        let cluster = key.cluster();
        self.ownership_graph.flush(cluster);
        let Some(item) = self.ownership_graph.item(cluster, &Uid::new(key.name())) else {
            return Ok(Action::AwaitChange);
        };
        let done = match item.existence {
            Existence::Gone => Ok(Action::AwaitChange),
            Existence::Unseen(_) => self.check_unseen_owner(cluster, &item.identity.uid).await,
            Existence::Observed => self.sync(cluster, &item).await,
        };
        match done {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::RequeueAfter(CONFLICT)),
            done => done.map_err(|source| Error { identity: item.identity, source }),
        }
    }
}

impl Collector {
    /// Checks whether an owner that was never observed exists.
    async fn check_unseen_owner(&self, cluster: &ClusterId, uid: &Uid) -> kube::Result<Action> {
        let mut action = Action::AwaitChange;
        for named in self.ownership_graph.names_of_unseen(cluster, uid) {
            match self.look_up_owner(cluster, &named).await? {
                // Bootstrap objects have no event per cluster; their deletion in one cluster has.
                OwnerLookup::Exists(_) if self.ownership_graph.is_shared(&named) => {}
                OwnerLookup::Exists(_) => action = Action::RequeueAfter(UNSEEN),
                OwnerLookup::Absent(absent) => self.ownership_graph.mark_absent(cluster, absent),
                OwnerLookup::UnknownKind if action == Action::AwaitChange => {
                    action = Action::RequeueAfter(UNRESOLVED)
                }
                OwnerLookup::UnknownKind | OwnerLookup::Misplaced => {}
            }
        }
        Ok(action)
    }

    async fn sync(&self, cluster: &ClusterId, item: &Item) -> kube::Result<Action> {
        let deletion = item.deletion;
        if deletion.orphans_dependents() {
            self.orphan_dependents(cluster, &item.identity).await?;
        } else if deletion.deletes_dependents() {
            self.await_dependents(cluster, &item.identity).await?;
        } else if !deletion.terminating && self.has_doubtful_owner(cluster, item) {
            return self.judge(cluster, item).await;
        }
        Ok(Action::AwaitChange)
    }

    /// True if not all owners are known to exist.
    fn has_doubtful_owner(&self, cluster: &ClusterId, item: &Item) -> bool {
        let named = item.owners.iter().map(|owner| &*owner.identity);
        let classes = self.ownership_graph.classify(cluster, &item.identity.namespace, named);
        classes.iter().any(|class| *class != Class::Solid)
    }

    /// Decides on the current object.
    async fn judge(&self, cluster: &ClusterId, item: &Item) -> kube::Result<Action> {
        let Some(objects) = self.objects(cluster, &item.identity).await? else {
            return Ok(Action::RequeueAfter(UNRESOLVED));
        };
        let key = key(cluster, &item.identity);
        let latest = objects.get::<Object>(&key).await?;
        let Some(latest) = latest.filter(|latest| Uid::new(&latest.metadata.uid) == item.identity.uid) else {
            self.ownership_graph.mark_gone(cluster, &item.identity.uid);
            return Ok(Action::AwaitChange);
        };
        if latest.is_terminating() {
            return Ok(Action::AwaitChange);
        }
        let classes = match self.classify(cluster, &item.identity, &latest).await? {
            Ok(classes) => classes,
            Err(action) => return Ok(action),
        };
        let uid = &item.identity.uid;
        let situation = Situation {
            object: &latest,
            classes: &classes,
            has_dependents: item.has_dependents,
            has_waiting_dependent: self.ownership_graph.has_waiting_dependent(cluster, uid),
        };
        self.act(&objects, &key, &latest, plan(&situation)).await
    }

    /// Classifies the owner references of an object, or returns the action to take if that is not possible.
    async fn classify(
        &self,
        cluster: &ClusterId,
        dependent: &Identity,
        object: &Object,
    ) -> kube::Result<Result<Vec<Class>, Action>> {
        let namespace = &*dependent.namespace;
        let named: Vec<_> =
            object.owner_references.iter().map(|reference| Identity::named(namespace, reference)).collect();
        let mut classes = self.ownership_graph.classify(cluster, namespace, named.iter());
        for (class, named) in classes.iter_mut().zip(&named) {
            if *class == Class::OtherNamespace {
                self.record_invalid_namespace(cluster, dependent, named);
            }
            if !matches!(class, Class::Unknown | Class::OtherNamespace) {
                continue;
            }
            *class = match self.look_up_owner(cluster, named).await? {
                OwnerLookup::Exists(owner)
                    if owner.is_terminating() && owner.has_finalizer(ownership_graph::FOREGROUND) =>
                {
                    Class::Waiting
                }
                OwnerLookup::Exists(_) => Class::Solid,
                OwnerLookup::Absent(absent) => {
                    self.ownership_graph.mark_absent(cluster, absent);
                    Class::Dangling
                }
                OwnerLookup::UnknownKind => return Ok(Err(Action::RequeueAfter(UNRESOLVED))),
                // A retry cannot change that.
                OwnerLookup::Misplaced => return Ok(Err(Action::AwaitChange)),
            };
        }
        Ok(Ok(classes))
    }

    /// Looks up an owner on the server, in the namespace of its dependent.
    async fn look_up_owner(&self, cluster: &ClusterId, named: &Identity) -> kube::Result<OwnerLookup> {
        let Some(kind) = self.kind(cluster, named).await? else { return Ok(OwnerLookup::UnknownKind) };
        if kind.namespaced && named.namespace.is_empty() {
            return Ok(OwnerLookup::Misplaced);
        }
        let namespace = if kind.namespaced { Arc::clone(&named.namespace) } else { "".into() };
        let identity = Identity { namespace, ..named.clone() };
        let found = Objects::at(&self.client, kind.path()).get::<Object>(&key(cluster, &identity)).await?;
        let found = found.filter(|found| Uid::new(&found.metadata.uid) == named.uid);
        Ok(found.map_or(OwnerLookup::Absent(identity), OwnerLookup::Exists))
    }

    async fn kind(&self, cluster: &ClusterId, identity: &Identity) -> kube::Result<Option<Arc<ServedKind>>> {
        let kinds = self.ownership_graph.kinds(cluster).await?;
        Ok(kinds.resolve(&identity.r#type.api_version, &identity.r#type.kind).cloned())
    }

    /// Typed access to the object's kind; `None` if it is not served.
    async fn objects(&self, cluster: &ClusterId, identity: &Identity) -> kube::Result<Option<Objects>> {
        let kind = self.kind(cluster, identity).await?;
        Ok(kind.map(|kind| Objects::at(&self.client, kind.path())))
    }

    fn record_invalid_namespace(&self, cluster: &ClusterId, dependent: &Identity, owner: &Identity) {
        let about = Reference {
            api_version: Cow::Owned(dependent.r#type.api_version.to_string()),
            kind: Cow::Owned(dependent.r#type.kind.to_string()),
            namespace: (&*dependent.namespace).into(),
            name: dependent.name.clone(),
            uid: dependent.uid.to_string().into(),
            resource_version: Box::default(),
        };
        let message = format!("ownerRef {owner} does not exist in namespace {:?}", dependent.namespace);
        self.recorder.event(cluster, about, EventType::Warning, "OwnerRefInvalidNamespace", message);
    }
}

fn key(cluster: &ClusterId, identity: &Identity) -> ObjectKey {
    ObjectKey::namespaced(cluster.clone(), Arc::clone(&identity.namespace), &*identity.name)
}
