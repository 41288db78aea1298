//! Deleting what is in a namespace, of every kind the server knows.

use std::collections::BTreeMap;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

/// How far the deletion has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Why the kinds are not known, if they are not.
    pub(super) discovery_failure: Option<String>,
    /// What could not be done.
    pub(super) failures: Vec<String>,
    /// How many objects are left, by resource and group.
    pub(super) remaining: BTreeMap<String, usize>,
    /// How many of them each finalizer holds.
    pub(super) finalizers: BTreeMap<String, usize>,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Adds what is left of one resource.
    pub(super) fn note<'a>(&mut self, resource: &str, count: usize, held_by: impl Iterator<Item = &'a str>) {
        if count > 0 {
            self.remaining.insert(resource.to_owned(), count);
        }
        for finalizer in held_by {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// Deletes everything in a namespace, as far as it goes: pods, and once there are none, the rest.
pub(super) async fn delete(client: &Client, namespace: &str) -> Report {
    let mut report = Report::default();
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(error) => {
            report.failures.push(error.to_string());
            report.discovery_failure = Some(error.to_string());
            return report;
        }
    };
    let all = discovery.groups().flat_map(|group| group.recommended_resources());
    let (pods, others): (Vec<_>, Vec<_>) =
        all.filter(|(_, can)| is_deletable(can)).partition(|(resource, _)| is_pods(resource));
    for kinds in [pods, others] {
        for (resource, can) in kinds {
            if let Err(error) = empty(client, namespace, &resource, &can, &mut report).await {
                report.failures.push(format!("{}: {error}", named(&resource)));
            }
        }
        if !report.is_empty() || !report.failures.is_empty() {
            break;
        }
    }
    report
}

fn is_deletable(can: &ApiCapabilities) -> bool {
    can.scope == Scope::Namespaced
        && can.supports_operation(verbs::DELETE)
        && can.supports_operation(verbs::LIST)
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

/// As upstream names them in conditions, with a dot at the end for the first group.
fn named(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// Deletes all objects of one kind, and notes what is left.
async fn empty(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    can: &ApiCapabilities,
    report: &mut Report,
) -> kube::Result<()> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource);
    let found = api.list_metadata(&ListParams::default()).await?.items;
    if found.is_empty() {
        return Ok(());
    }
    // What depends on them is in this namespace or has owners of its own; nobody is to be made an orphan.
    let background = DeleteParams::background();
    if can.supports_operation(verbs::DELETE_COLLECTION) {
        api.delete_collection(&background, &ListParams::default()).await?;
    } else {
        for object in found {
            match api.delete(&object.name_any(), &background).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                done => drop(done?),
            }
        }
    }
    let left = api.list_metadata(&ListParams::default()).await?.items;
    let held_by = left.iter().flat_map(|object| object.finalizers()).map(String::as_str);
    report.note(&named(resource), left.len(), held_by);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_counted_by_resource_and_by_finalizer() {
        let mut report = Report::default();
        report.note("configmaps.", 0, [].into_iter());
        assert!(report.is_empty());
        report.note("pods.", 2, ["a/x", "a/y"].into_iter());
        report.note("jobs.batch", 1, ["a/x"].into_iter());
        assert_eq!(report.remaining, BTreeMap::from([("pods.".into(), 2), ("jobs.batch".into(), 1)]));
        assert_eq!(report.finalizers, BTreeMap::from([("a/x".into(), 2), ("a/y".into(), 1)]));
    }
}
