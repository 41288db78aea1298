//! What nobody owns any more goes.
//!
//! An object whose owners are all gone is deleted. One that is deleted in the foreground waits until its
//! dependents are gone, one that is deleted as an orphan's owner until they have forgotten it. Who owns
//! whom is known from [`crate::ownership_graph`]; what is decided is decided on the object as it is on the server.
//!
//! Owners that were seen are trusted to be there: should they be gone by now, that is told, and brings their
//! dependents back. So the server is asked only for owners that nobody has seen.

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

/// How many objects are looked at at a time, as in upstream (`concurrent-gc-syncs`).
const WORKERS: usize = 20;

/// When to look again for an owner that is there and has not been seen: its arrival is on the way.
const UNSEEN: Duration = Duration::from_secs(1);

/// When to look again at what depends on a kind that nobody serves or that cannot be followed. New kinds
/// bring it back by themselves.
const UNRESOLVED: Duration = Duration::from_secs(300);

/// When to try again what somebody else changed at the same moment.
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
        .awaits(ownership_graph.ready())
        .workers(WORKERS);
    ownership_graph.tell_collector(controller.queue());
    manager.add(controller);
}

/// Why an object could not be looked after.
#[derive(Debug, thiserror::Error)]
#[error("cannot look after {identity}")]
pub(crate) struct Error {
    identity: Arc<Identity>,
    source: kube::Error,
}

struct Collector {
    client: Client,
    recorder: Recorder,
    ownership_graph: Arc<OwnershipGraph>,
}

/// What the server says of an owner.
enum Answer {
    There(Object),
    /// There is none; this is where it was looked for.
    Absent(Identity),
    /// Nobody serves the kind.
    UnknownKind,
    /// It is in a namespace and what it should own is not, so nobody knows which it is.
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
            Existence::Unseen(_) => self.look_for(cluster, &item.identity.uid).await,
            Existence::Observed => self.look_after(cluster, &item).await,
        };
        match done {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::RequeueAfter(CONFLICT)),
            done => done.map_err(|source| Error { identity: item.identity, source }),
        }
    }
}

impl Collector {
    /// Finds out whether an owner that nobody has seen is there.
    async fn look_for(&self, cluster: &ClusterId, uid: &Uid) -> kube::Result<Action> {
        let mut again = Action::AwaitChange;
        for named in self.ownership_graph.names_of_unseen(cluster, uid) {
            match self.ask(cluster, &named).await? {
                // What every cluster begins with is not told of each; should it go here, that is.
                Answer::There(_) if self.ownership_graph.is_shared(&named) => {}
                Answer::There(_) => again = Action::RequeueAfter(UNSEEN),
                Answer::Absent(absent) => self.ownership_graph.note_absent(cluster, absent),
                Answer::UnknownKind if again == Action::AwaitChange => {
                    again = Action::RequeueAfter(UNRESOLVED)
                }
                Answer::UnknownKind | Answer::Misplaced => {}
            }
        }
        Ok(again)
    }

    async fn look_after(&self, cluster: &ClusterId, item: &Item) -> kube::Result<Action> {
        let fate = item.fate;
        if fate.orphans_dependents() {
            self.orphan_dependents(cluster, &item.identity).await?;
        } else if fate.deletes_dependents() {
            self.await_dependents(cluster, &item.identity).await?;
        } else if !fate.going && self.is_doubtful(cluster, item) {
            return self.judge(cluster, item).await;
        }
        Ok(Action::AwaitChange)
    }

    /// Whether not all of its owners are known to be there.
    fn is_doubtful(&self, cluster: &ClusterId, item: &Item) -> bool {
        let named = item.owners.iter().map(|owner| &*owner.identity);
        let classes = self.ownership_graph.classify(cluster, &item.identity.namespace, named);
        classes.iter().any(|class| *class != Class::Solid)
    }

    /// Decides on an object as it is now.
    async fn judge(&self, cluster: &ClusterId, item: &Item) -> kube::Result<Action> {
        let Some(objects) = self.objects(cluster, &item.identity).await? else {
            return Ok(Action::RequeueAfter(UNRESOLVED));
        };
        let key = key(cluster, &item.identity);
        let latest = objects.get::<Object>(&key).await?;
        let Some(latest) = latest.filter(|latest| Uid::new(&latest.metadata.uid) == item.identity.uid) else {
            self.ownership_graph.note_gone(cluster, &item.identity.uid);
            return Ok(Action::AwaitChange);
        };
        if latest.is_going() {
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

    /// What becomes of each of the references of an object, or what to do instead if that cannot be said.
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
            if *class == Class::Elsewhere {
                self.tell_of_invalid_namespace(cluster, dependent, named);
            }
            if !matches!(class, Class::Unknown | Class::Elsewhere) {
                continue;
            }
            *class = match self.ask(cluster, named).await? {
                Answer::There(owner)
                    if owner.is_going() && owner.has_finalizer(ownership_graph::FOREGROUND) =>
                {
                    Class::Waiting
                }
                Answer::There(_) => Class::Solid,
                Answer::Absent(absent) => {
                    self.ownership_graph.note_absent(cluster, absent);
                    Class::Dangling
                }
                Answer::UnknownKind => return Ok(Err(Action::RequeueAfter(UNRESOLVED))),
                // That does not get better by looking again.
                Answer::Misplaced => return Ok(Err(Action::AwaitChange)),
            };
        }
        Ok(Ok(classes))
    }

    /// Asks the server for an owner, where the one who names it is.
    async fn ask(&self, cluster: &ClusterId, named: &Identity) -> kube::Result<Answer> {
        let Some(kind) = self.kind(cluster, named).await? else { return Ok(Answer::UnknownKind) };
        if kind.namespaced && named.namespace.is_empty() {
            return Ok(Answer::Misplaced);
        }
        let namespace = if kind.namespaced { Arc::clone(&named.namespace) } else { "".into() };
        let place = Identity { namespace, ..named.clone() };
        let found = Objects::at(&self.client, kind.path()).get::<Object>(&key(cluster, &place)).await?;
        let found = found.filter(|found| Uid::new(&found.metadata.uid) == named.uid);
        Ok(found.map_or(Answer::Absent(place), Answer::There))
    }

    async fn kind(&self, cluster: &ClusterId, identity: &Identity) -> kube::Result<Option<Arc<ServedKind>>> {
        let kinds = self.ownership_graph.kinds(cluster).await?;
        Ok(kinds.resolve(&identity.r#type.api_version, &identity.r#type.kind).cloned())
    }

    /// The objects among which this one is; none if its kind is not served.
    async fn objects(&self, cluster: &ClusterId, identity: &Identity) -> kube::Result<Option<Objects>> {
        let kind = self.kind(cluster, identity).await?;
        Ok(kind.map(|kind| Objects::at(&self.client, kind.path())))
    }

    fn tell_of_invalid_namespace(&self, cluster: &ClusterId, dependent: &Identity, owner: &Identity) {
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

/// Where an object is.
fn key(cluster: &ClusterId, identity: &Identity) -> ObjectKey {
    ObjectKey::namespaced(cluster.clone(), Arc::clone(&identity.namespace), &*identity.name)
}
