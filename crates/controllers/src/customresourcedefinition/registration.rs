//! Registers each served version of a CustomResourceDefinition's group as an APIService, and deletes it with the last
//! definition that serves the version. Changes by others are reverted; APIServices created by others are left alone.

use std::collections::BTreeMap;

use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use serde::Deserialize;

use super::definition::Definition;
use super::{MANAGER, informer};
use crate::apiservice_availability::{Availability, Status};
use crate::{Registration, Settings, api_error};

/// Label and value by which kube-aggregator recognizes APIServices that are managed automatically.
const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const AUTOMANAGED: &str = "true";

/// After all built-in groups, as in Kubernetes (`crdregistration_controller.go`).
const GROUP_PRIORITY: i32 = 1000;

/// The same for all versions, so that they are ordered by name.
const VERSION_PRIORITY: i32 = 100;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "crd-autoregistration-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let definitions = informer(manager);
    let registered = registered(manager);
    let services = Objects::of::<APIService>(manager.client()).managed_by(MANAGER);
    let reconcile =
        AutoRegistration { services, definitions: definitions.clone(), registered: registered.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("crd_autoregistration_controller")
        .watches(&definitions, versions)
        .watches(&registered, |change| Some(change.key.clone()));
    manager.add(controller);
}

/// The informer of all APIServices.
pub(crate) fn registered(manager: &mut Manager) -> Informer<Registered> {
    manager.informer(Selection::of::<APIService>())
}

/// APIServices of all versions that a definition has or had.
fn versions(change: &Change<Definition>) -> Vec<ObjectKey> {
    let states = [&change.old, &change.new].into_iter().flatten();
    let names = states.flat_map(|definition| {
        let group = &definition.spec.group;
        definition.spec.versions.iter().map(move |version| format!("{}.{group}", version.name))
    });
    names.map(|name| ObjectKey::cluster_wide(change.key.cluster().clone(), name)).collect()
}

/// View of an APIService.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
pub(crate) struct Registered {
    pub(crate) metadata: Metadata,
    /// True if it is managed by this controller.
    managed: bool,
    is_right: bool,
    /// Availability of the service; `None` for local APIServices whose status is right, which are nearly all: every
    /// cluster has some thirty of them.
    pub(crate) availability: Option<Box<Availability>>,
}

/// The wire format.
#[derive(Deserialize)]
struct Whole {
    metadata: WholeMetadata,
    #[serde(default)]
    spec: APIServiceSpec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct WholeMetadata {
    #[serde(flatten)]
    metadata: Metadata,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl From<Whole> for Registered {
    fn from(whole: Whole) -> Self {
        let managed = whole.metadata.labels.get(MANAGED_LABEL).is_some_and(|value| value == AUTOMANAGED);
        let is_right = whole.spec == spec(&whole.metadata.metadata.name);
        let availability = Availability::of(&whole.spec, &whole.status).map(Box::new);
        Self { metadata: whole.metadata.metadata, managed, is_right, availability }
    }
}

impl View for Registered {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The spec of the APIService of this name.
fn spec(name: &str) -> APIServiceSpec {
    // Version names contain no dots.
    let (version, group) = name.split_once('.').unwrap_or((name, ""));
    APIServiceSpec {
        group: Some(group.to_owned()),
        version: Some(version.to_owned()),
        group_priority_minimum: GROUP_PRIORITY,
        version_priority: VERSION_PRIORITY,
        ..APIServiceSpec::default()
    }
}

/// True if the definition serves the version of the APIService of this name.
fn serves(definition: &Definition, name: &str) -> bool {
    let spec = &definition.spec;
    let is_it = |version: &str| name.strip_prefix(version).and_then(|rest| rest.strip_prefix('.'));
    spec.versions.iter().any(|version| version.served && is_it(&version.name) == Some(&spec.group))
}

/// Next step for an APIService.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Create,
    Repair,
    Delete,
}

fn plan(wanted: bool, registered: Option<&Registered>) -> Plan {
    match registered {
        None if wanted => Plan::Create,
        Some(known) if known.managed && !wanted => Plan::Delete,
        Some(known) if known.managed && !known.is_right => Plan::Repair,
        _ => Plan::Nothing,
    }
}

struct AutoRegistration {
    services: Objects,
    definitions: Informer<Definition>,
    registered: Informer<Registered>,
}

impl AutoRegistration {
    async fn create(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let name = key.name();
        let labels = BTreeMap::from([(MANAGED_LABEL.to_owned(), AUTOMANAGED.to_owned())]);
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
        let service = APIService { metadata, spec: Some(spec(name)), status: None };
        match self.services.create::<Written>(key, &service).await {
            // The informer's event for it enqueues the key again.
            Err(error) if !api_error::already_exists(&error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn repair(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let Some(mut current) = self.services.get::<APIService>(key).await? else { return Ok(()) };
        current.spec = Some(spec(key.name()));
        unless_changed(self.services.replace::<Written>(key, &current).await)
    }

    async fn delete(&self, key: &ObjectKey, registered: &Registered) -> Result<(), kube::Error> {
        let resource_version = Some(registered.metadata.resource_version.to_string());
        let unchanged = Preconditions { resource_version, uid: None };
        let params = DeleteParams::default().preconditions(unchanged);
        unless_changed(self.services.delete(key, &params).await)
    }
}

/// Ignores that the object is gone or has changed, which enqueues the key again.
fn unless_changed<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        answer => answer.map(drop),
    }
}

impl Reconcile for AutoRegistration {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let definitions = self.definitions.store().in_cluster(key.cluster());
        let wanted = definitions.iter().any(|one| serves(one, key.name()));
        let registered = self.registered.store().get(key);
        match (plan(wanted, registered.as_deref()), registered) {
            (Plan::Create, _) => self.create(key).await?,
            (Plan::Repair, _) => self.repair(key).await?,
            (Plan::Delete, Some(registered)) => self.delete(key, &registered).await?,
            (Plan::Delete, None) | (Plan::Nothing, _) => {}
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn registered(managed: Value, priority: i32) -> Registered {
        let metadata = json!({"name": "v1.example.com", "labels": {MANAGED_LABEL: managed}});
        let spec = json!({
            "group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": priority,
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn served_versions_are_registered() {
        let right = registered(json!("true"), 100);
        assert_eq!(plan(true, None), Plan::Create);
        assert_eq!(plan(true, Some(&right)), Plan::Nothing);
        assert_eq!(plan(true, Some(&registered(json!("true"), 7))), Plan::Repair);
        assert_eq!(plan(false, Some(&right)), Plan::Delete);
        assert_eq!(plan(false, None), Plan::Nothing);
    }

    #[test]
    fn unmanaged_api_services_are_left_alone() {
        for managed in ["onstart", "no"] {
            for wanted in [true, false] {
                assert_eq!(plan(wanted, Some(&registered(json!(managed), 7))), Plan::Nothing);
            }
        }
    }

    #[test]
    fn version_is_registered_while_served() {
        let versions = json!([{"name": "v1", "served": true}, {"name": "v2", "served": false}]);
        let definition: Definition =
            serde_json::from_value(json!({"spec": {"group": "example.com", "versions": versions}})).unwrap();
        for (name, expected) in [
            ("v1.example.com", true),
            ("v2.example.com", false),
            ("v1.other.example.com", false),
            ("v1.", false),
            ("v11.example.com", false),
        ] {
            assert_eq!(serves(&definition, name), expected, "{name}");
        }
    }
}
