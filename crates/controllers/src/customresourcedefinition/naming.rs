//! Accepts the names of a definition and sets it to Established, or reports the conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use coracle_base::{Clock, Timestamp};
use coracle_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use serde_json::json;

use super::definition::{Definition, Names, NewCondition, Status, approval_annotation};
use super::{informer, objects, patch_status};
use crate::{Registration, Settings};

/// Suffix of messages about approvals.
const DISCUSSION: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "crd-naming-condition-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let definitions = informer(manager);
    let (objects, clock) = (objects(manager), settings.clock.clone());
    let reconcile = Naming { objects, clock, definitions: definitions.clone(), written: Mutex::default() };
    let others = definitions.clone();
    // One worker: the first definition gets a name.
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("crd_naming_condition_controller")
        .watches(&definitions, move |change| keys_to_check(change, &others));
    manager.add(controller);
}

/// The definition itself, and those of its group that wait for names that it may have released.
fn keys_to_check(change: &Change<Definition>, definitions: &Informer<Definition>) -> Vec<ObjectKey> {
    let Some(group) = change.new.as_ref().or(change.old.as_ref()).map(|one| &one.spec.group) else {
        return Vec::new();
    };
    let waiting = definitions.store().in_cluster(change.key.cluster()).into_iter().filter(|other| {
        other.spec.group == *group && other.name() != change.key.name() && !is_settled(other)
    });
    let key = |other: &Definition| ObjectKey::cluster_wide(change.key.cluster().clone(), other.name());
    let mut keys: Vec<ObjectKey> = waiting.map(|other| key(&other)).collect();
    keys.push(change.key.clone());
    keys
}

fn is_settled(definition: &Definition) -> bool {
    definition.spec.names == definition.status.accepted_names && definition.status.is_true("Established")
}

/// Names in use by other definitions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Used {
    fn add(&mut self, names: &Names) {
        let resources = [Some(&names.plural), names.singular.as_ref()].into_iter().flatten();
        self.resources.extend(resources.chain(names.short_names.iter().flatten()).cloned());
        self.kinds.extend([Some(&names.kind), names.list_kind.as_ref()].into_iter().flatten().cloned());
    }
}

/// The new status of a definition; `None` if it stays the same.
fn plan(definition: &Definition, used: &Used, now: Timestamp) -> Option<Status> {
    let before = &definition.status;
    let mut status = before.clone();
    if definition.spec.names != before.accepted_names {
        accept_names(definition, used, &mut status, now);
    }
    if status.is_true("NamesAccepted") && !status.is_true("Established") {
        let message = "the initial names have been accepted";
        set_condition(&mut status, "Established", true, "InitialNamesAccepted", message, now);
    } else if !status.has("Established") {
        set_condition(&mut status, "Established", false, "NotAccepted", "not all names are accepted", now);
    }
    set_approval(definition, &mut status, now);
    let changed = status.conditions != before.conditions || status.accepted_names != before.accepted_names;
    changed.then_some(status)
}

fn set_condition(status: &mut Status, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    status.set_condition(NewCondition { kind, holds, reason, message }, now);
}

/// Accepts the names that are free. The condition reports the last conflict.
fn accept_names(definition: &Definition, used: &Used, status: &mut Status, now: Timestamp) {
    let (wanted, has) = (&definition.spec.names, definition.status.accepted_names.clone());
    let mut accepted = has.clone();
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    let is_free = |wanted: &str, has: &str, used: &BTreeSet<String>| wanted == has || !used.contains(wanted);
    let text = |name: &Option<String>| name.clone().unwrap_or_default();

    if is_free(&wanted.plural, &has.plural, &used.resources) {
        accepted.plural.clone_from(&wanted.plural);
    } else {
        conflict = Some(("PluralConflict", in_use(&wanted.plural)));
    }
    if is_free(&text(&wanted.singular), &text(&has.singular), &used.resources) {
        accepted.singular.clone_from(&wanted.singular);
    } else {
        conflict = Some(("SingularConflict", in_use(&text(&wanted.singular))));
    }
    let own: Vec<&String> = has.short_names.iter().flatten().collect();
    let short_names = wanted.short_names.iter().flatten();
    let taken: Vec<String> = short_names
        .filter(|name| !own.contains(name) && used.resources.contains(*name))
        .map(|name| in_use(name))
        .collect();
    match taken.as_slice() {
        [] => accepted.short_names.clone_from(&wanted.short_names),
        [one] => conflict = Some(("ShortNamesConflict", one.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    if is_free(&wanted.kind, &has.kind, &used.kinds) {
        accepted.kind.clone_from(&wanted.kind);
    } else {
        conflict = Some(("KindConflict", in_use(&wanted.kind)));
    }
    if is_free(&text(&wanted.list_kind), &text(&has.list_kind), &used.kinds) {
        accepted.list_kind.clone_from(&wanted.list_kind);
    } else {
        conflict = Some(("ListKindConflict", in_use(&text(&wanted.list_kind))));
    }
    accepted.categories.clone_from(&wanted.categories);

    status.accepted_names = accepted;
    match conflict {
        None => set_condition(status, "NamesAccepted", true, "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => set_condition(status, "NamesAccepted", false, reason, &message, now),
    }
}

/// Sets the approval condition of groups of the Kubernetes community.
fn set_approval(definition: &Definition, status: &mut Status, now: Timestamp) {
    let group = &definition.spec.group;
    let is_of = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !is_of("k8s.io") && !is_of("kubernetes.io") {
        return;
    }
    let (approval, annotation) = (definition.approval(), approval_annotation());
    let must = format!("protected groups must have approval annotation {annotation:?}");
    let is_url = approval.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && rest.split('/').next().is_some_and(|host| !host.is_empty())
    });
    let (holds, reason, message) = match approval {
        "" => (false, "MissingAnnotation", format!("{must}, {DISCUSSION}")),
        text if text.starts_with("unapproved") => {
            (false, "UnapprovedAnnotation", format!("not approved: {text:?}"))
        }
        text if is_url => (true, "ApprovedAnnotation", format!("approved in {text}")),
        _ => {
            let otherwise = "with either a URL or a reason starting with \"unapproved\"";
            (false, "InvalidAnnotation", format!("{must} {otherwise}, {DISCUSSION}"))
        }
    };
    let condition =
        NewCondition { kind: "KubernetesAPIApprovalPolicyConformant", holds, reason, message: &message };
    let known = status.conditions.iter().find(|known| known.kind == condition.kind);
    if known.is_none_or(|known| known.reason != condition.reason || known.message != condition.message) {
        status.set_condition(condition, now);
    }
}

struct Naming {
    objects: Objects,
    clock: Clock,
    definitions: Informer<Definition>,
    /// Accepted names that the informer has not seen yet, by definition: only as many as can be written before the
    /// events arrive.
    written: Mutex<BTreeMap<ObjectKey, Written>>,
}

struct Written {
    revision: u64,
    group: String,
    names: Names,
}

fn revision(definition: &Definition) -> u64 {
    definition.metadata.plain.resource_version.parse().unwrap_or(0)
}

impl Naming {
    /// Names of the group in use by other definitions, including the last writes.
    fn used(&self, key: &ObjectKey, definition: &Definition) -> Used {
        let mut used = Used::default();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for other in self.definitions.store().in_cluster(key.cluster()) {
            let other_key = ObjectKey::cluster_wide(key.cluster().clone(), other.name());
            if written.get(&other_key).is_some_and(|known| known.revision <= revision(&other)) {
                written.remove(&other_key);
            }
            let is_other = other.name() != definition.name() && other.spec.group == definition.spec.group;
            if is_other && !written.contains_key(&other_key) {
                used.add(&other.status.accepted_names);
            }
        }
        for (other_key, known) in written.iter().filter(|(other, _)| other.cluster() == key.cluster()) {
            if other_key != key && known.group == definition.spec.group {
                used.add(&known.names);
            }
        }
        used
    }

    fn note(&self, key: &ObjectKey, definition: &Definition) {
        let written = Written {
            revision: revision(definition),
            group: definition.spec.group.clone(),
            names: definition.status.accepted_names.clone(),
        };
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), written);
    }

    fn forget(&self, key: &ObjectKey) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Reconcile for Naming {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(definition) = self.definitions.store().get(key) else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let used = self.used(key, &definition);
        if let Some(status) = plan(&definition, &used, self.clock.now()) {
            let patch = json!({
                "metadata": {"resourceVersion": definition.metadata.plain.resource_version},
                "status": {"acceptedNames": status.accepted_names, "conditions": status.conditions},
            });
            if let Some(written) = patch_status(&self.objects, key, &patch).await? {
                self.note(key, &written);
            }
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn definition(group: &str, names: Value, accepted: Value) -> Definition {
        let spec = json!({"group": group, "names": names});
        let metadata = json!({"name": "x", "annotations": {"other": "1"}});
        let status = json!({"acceptedNames": accepted, "conditions": null});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn names() -> Value {
        json!({"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList", "shortNames": ["bt", "b"]})
    }

    fn reasons(status: &Status) -> Vec<(&str, &str, &str)> {
        let conditions = status.conditions.iter();
        conditions.map(|one| (&*one.kind, &*one.status, &*one.reason)).collect()
    }

    #[test]
    fn free_names_are_accepted() {
        let mut new = definition("example.com", names(), json!({"plural": "", "kind": ""}));
        let status = plan(&new, &Used::default(), NOW).unwrap();
        let expected =
            [("NamesAccepted", "True", "NoConflicts"), ("Established", "True", "InitialNamesAccepted")];
        assert_eq!(reasons(&status), expected);
        assert_eq!(status.accepted_names, new.spec.names);
        assert_eq!(status.conditions[0].last_transition_time.as_deref(), Some("1970-01-01T00:16:40Z"));
        new.status = status;
        assert!(plan(&new, &Used::default(), NOW).is_none(), "nothing is left to do");
    }

    #[test]
    fn names_in_use_are_not_accepted() {
        let new = definition("example.com", names(), json!({}));
        let mut used = Used::default();
        used.add(&Names { plural: "bt".into(), short_names: Some(vec!["b".into()]), ..Names::default() });
        let status = plan(&new, &used, NOW).unwrap();
        let expected =
            [("NamesAccepted", "False", "ShortNamesConflict"), ("Established", "False", "NotAccepted")];
        assert_eq!(reasons(&status), expected);
        assert_eq!(status.conditions[0].message, "[\"bt\" is already in use, \"b\" is already in use]");
        assert_eq!((&*status.accepted_names.kind, &status.accepted_names.short_names), ("Boat", &None));
        used.add(&Names { kind: "BoatList".into(), ..Names::default() });
        let status = plan(&new, &used, NOW).unwrap();
        assert_eq!(status.conditions[0].message, "\"BoatList\" is already in use");
    }

    #[test]
    fn established_definition_stays_established() {
        let mut known = definition("example.com", names(), names());
        let mut status = plan(&known, &Used::default(), NOW);
        assert!(status.as_ref().is_some_and(|status| !status.has("NamesAccepted")), "the names are its own");
        known
            .status
            .set_condition(NewCondition { kind: "Established", holds: true, reason: "r", message: "" }, NOW);
        known.spec.names.kind = "Ship".into();
        let mut used = Used::default();
        used.add(&Names { kind: "Ship".into(), ..Names::default() });
        status = plan(&known, &used, NOW);
        let expected = [("Established", "True", "r"), ("NamesAccepted", "False", "KindConflict")];
        assert_eq!(reasons(&status.unwrap()), expected);
    }

    #[test]
    fn community_groups_need_an_approval_annotation() {
        for (approval, status, reason) in [
            (json!("https://github.com/kubernetes/kubernetes/pull/1"), "True", "ApprovedAnnotation"),
            (json!("unapproved, a trial"), "False", "UnapprovedAnnotation"),
            (json!("maybe"), "False", "InvalidAnnotation"),
            (json!(""), "False", "MissingAnnotation"),
        ] {
            let metadata = json!({"name": "x", "annotations": {"api-approved.kubernetes.io": approval}});
            let spec = json!({"group": "x.k8s.io", "names": names()});
            let new: Definition =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            let planned = plan(&new, &Used::default(), NOW).unwrap();
            assert_eq!(reasons(&planned)[2], ("KubernetesAPIApprovalPolicyConformant", status, reason));
        }
    }
}
