//! Deletes the objects of all kinds in a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_runtime::{ObjectKey, Objects};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use kube::Client;
use kube::api::{DeleteParams, ListParams};

use crate::ownership_graph::{Kinds, Object, ServedKind};

/// Number of kinds deleted concurrently.
const KINDS: usize = 16;

/// Number of objects of a kind deleted concurrently if it does not support deletecollection.
const OBJECTS: usize = 16;

/// Progress of the deletion.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Why not all kinds are known, if so.
    pub(super) discovery_failure: Option<String>,
    /// Errors of requests.
    pub(super) failures: Vec<String>,
    /// Number of remaining objects by resource and group.
    pub(super) remaining: BTreeMap<String, usize>,
    /// Number of remaining objects by finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Adds the remaining objects of a resource.
    pub(super) fn add_remaining<'a>(
        &mut self,
        resource: &str,
        count: usize,
        held_by: impl Iterator<Item = &'a str>,
    ) {
        if count > 0 {
            self.remaining.insert(resource.to_owned(), count);
        }
        for finalizer in held_by {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// Deletes all objects in the namespace of `inside`, as far as possible: first pods, and once there are none, the
/// other kinds, several concurrently.
pub(super) async fn delete(client: &Client, kinds: &Kinds, inside: &ObjectKey) -> Report {
    let mut report = Report::default();
    let (pods, others): (Vec<_>, Vec<_>) =
        kinds.preferred().filter(|kind| is_deletable(kind)).cloned().partition(|kind| is_pods(kind));
    for kinds in [pods, others] {
        let mut emptied = stream::iter(kinds)
            .map(|kind| async move { (empty(client, inside, &kind).await, kind) })
            .buffer_unordered(KINDS);
        while let Some((left, kind)) = emptied.next().await {
            add_remaining(&mut report, &kind, left);
        }
        if !report.is_empty() || !report.failures.is_empty() {
            break;
        }
    }
    if let Some(message) = undiscovered(kinds.stale()) {
        // The known kinds are deleted, but there may be others.
        report.failures.push(message.clone());
        report.discovery_failure = Some(message);
    }
    // Sorted, because the order of completion would change the condition each time.
    report.failures.sort();
    report
}

fn add_remaining(report: &mut Report, kind: &Arc<ServedKind>, left: kube::Result<Vec<Object>>) {
    match left {
        Ok(left) => {
            let held_by = left.iter().flat_map(|object| &object.finalizers).map(|name| &**name);
            report.add_remaining(&named(kind), left.len(), held_by);
        }
        Err(error) => report.failures.push(format!("{}: {error}", named(kind))),
    }
}

/// Kubernetes' message for versions whose API servers do not answer.
fn undiscovered(stale: &[String]) -> Option<String> {
    let each: Vec<_> =
        stale.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}")).collect();
    let list = each.join(", ");
    (!stale.is_empty()).then(|| {
        let count = stale.len();
        format!("Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {list}")
    })
}

pub(super) fn is_deletable(kind: &ServedKind) -> bool {
    kind.namespaced && kind.can(&["delete", "list"])
}

fn is_pods(kind: &ServedKind) -> bool {
    kind.group.is_empty() && &*kind.plural == "pods"
}

/// Name of a resource in the conditions, as in Kubernetes, with a trailing dot for the core group.
fn named(kind: &ServedKind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// Deletes all objects of one kind, and returns the remaining ones.
async fn empty(client: &Client, inside: &ObjectKey, kind: &ServedKind) -> kube::Result<Vec<Object>> {
    let objects = Objects::at(client, kind.path());
    // Most kinds have no objects there; a list of one object shows whether this one does.
    if objects.list::<Object>(inside, &ListParams::default().limit(1)).await?.is_empty() {
        return Ok(Vec::new());
    }
    // With background propagation: dependents are in this namespace or have other owners, so none must be orphaned.
    if kind.can(&["deletecollection"]) {
        objects.delete_collection(inside, &DeleteParams::background(), &ListParams::default()).await?;
    } else {
        let found = objects.list::<Object>(inside, &ListParams::default()).await?;
        let (mut found, mut deletions) = (found.iter(), FuturesUnordered::new());
        loop {
            let room = OBJECTS - deletions.len();
            deletions.extend(found.by_ref().take(room).map(|object| delete_one(&objects, inside, object)));
            match deletions.next().await {
                Some(deleted) => deleted?,
                None => break,
            }
        }
    }
    objects.list(inside, &ListParams::default()).await
}

async fn delete_one(objects: &Objects, inside: &ObjectKey, object: &Object) -> kube::Result<()> {
    let key = ObjectKey::namespaced(inside.cluster().clone(), inside.namespace(), &*object.metadata.name);
    objects.delete(&key, &DeleteParams::background()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_objects_are_counted_by_resource_and_finalizer() {
        let mut report = Report::default();
        report.add_remaining("configmaps.", 0, [].into_iter());
        assert!(report.is_empty());
        report.add_remaining("pods.", 2, ["a/x", "a/y"].into_iter());
        report.add_remaining("jobs.batch", 1, ["a/x"].into_iter());
        assert_eq!(report.remaining, BTreeMap::from([("pods.".into(), 2), ("jobs.batch".into(), 1)]));
        assert_eq!(report.finalizers, BTreeMap::from([("a/x".into(), 2), ("a/y".into(), 1)]));
    }

    #[test]
    fn undiscovered_groups_are_named() {
        assert_eq!(undiscovered(&[]), None);
        let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
                       server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1";
        assert_eq!(undiscovered(&["metrics.k8s.io/v1beta1".to_owned()]).as_deref(), Some(message));
    }
}
