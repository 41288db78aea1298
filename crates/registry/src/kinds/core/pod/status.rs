//! Status of a pod, as its node and the scheduler report it.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use super::{parts, update};
use crate::kinds::core::pod_spec::defaults::each;
use crate::kinds::core::pod_spec::{annotation, check};
use crate::{internal_types, view};

const LISTS: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// The condition `PodScheduled` of a pod with scheduling gates.
pub(super) fn gated_condition(pod: &Value) -> Value {
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
    });
    if let Some(now) = view::at(pod, &["metadata", "creationTimestamp"]) {
        condition["lastTransitionTime"] = now.clone();
    }
    condition
}

/// Carries over fields that clients tend to omit from a status.
pub(super) fn prepare(new: &mut Value, old: &Value) {
    // Status updates cannot change the deletion timestamp.
    match old.pointer("/metadata/deletionTimestamp").cloned() {
        Some(time) => new["metadata"]["deletionTimestamp"] = time,
        None => drop(new["metadata"].as_object_mut().and_then(|fields| fields.remove("deletionTimestamp"))),
    }
    let old = old.get("status").unwrap_or(&Value::Null);
    let Some(new) = new.get_mut("status") else { return };
    if view::text(new, &["qosClass"]).is_empty() {
        copy(new, old, "qosClass");
    }
    if view::integer(new, &["observedGeneration"]).unwrap_or(0) == 0 {
        copy(new, old, "observedGeneration");
    }
    observed_generations(new, old);
    drop_disabled_fields(new, old);
    pod_address(new);
}

/// Removes the fields of disabled features, unless the stored status uses the feature:
/// ImageVolumeWithDigest and DRANodeAllocatableResources.
fn drop_disabled_fields(new: &mut Value, old: &Value) {
    let has_volume_status = |list: &&str| {
        let mounts =
            view::items(old, &[list]).iter().flat_map(|status| view::items(status, &["volumeMounts"]));
        mounts.into_iter().any(|mount| mount.get("volumeStatus").is_some())
    };
    if !LISTS.iter().any(has_volume_status) {
        for list in LISTS {
            each(new, list, |status| each(status, "volumeMounts", |mount| remove(mount, "volumeStatus")));
        }
    }
    let claims = "nodeAllocatableResourceClaimStatuses";
    if view::items(old, &[claims]).is_empty() {
        remove(new, claims);
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}

/// Makes `podIP` equal to the first of `podIPs`. Where they differ, `podIP` wins, since clients
/// that know only this field are older.
fn pod_address(status: &mut Value) {
    let Value::Object(fields) = status else { return };
    let single = fields.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let all = fields.get("podIPs").and_then(Value::as_array);
    let first = all.and_then(|all| all.first()).map_or("", |address| view::text(address, &["ip"])).to_owned();
    if single.is_empty() {
        if !first.is_empty() {
            fields.insert("podIP".to_owned(), first.into());
        }
    } else if single != first {
        fields.insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
}

fn copy(new: &mut Value, old: &Value, field: &str) {
    if let (Value::Object(fields), Some(value)) = (new, old.get(field)) {
        fields.insert(field.to_owned(), value.clone());
    }
}

/// Carries over the observed generation of conditions, which are matched by type and order.
fn observed_generations(new: &mut Value, old: &Value) {
    let mut old: Vec<&Value> = view::items(old, &["conditions"]).iter().collect();
    let Some(conditions) = new.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    for condition in conditions {
        let kind = view::text(condition, &["type"]).to_owned();
        let Some(index) = old.iter().position(|other| view::text(other, &["type"]) == kind) else { continue };
        let previous = old.remove(index);
        if view::integer(condition, &["observedGeneration"]).unwrap_or(0) == 0 {
            copy(condition, previous, "observedGeneration");
        }
    }
}

/// Validates an update of the status.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut ErrorList) {
    update::validate_annotations(new, old, errors);
    let (metadata, spec) = parts(new);
    annotation::validate(metadata, spec, &Path::root("metadata.annotations"), errors);
    let old_spec = parts(old).1;
    let status = |pod: &'_ Value| pod.get("status").cloned().unwrap_or(Value::Null);
    let (new, old) = (status(new), status(old));
    let path = Path::root("status");
    conditions(&new, &path.child("conditions"), errors);
    if view::text(spec, &["nodeName"]) != view::text(old_spec, &["nodeName"]) {
        errors.push(FieldError::forbidden(&path.child("nodeName"), "may not be changed directly"));
    }
    nominated_node(&new, &old, old_spec, &path.child("nominatedNodeName"), errors);
    if let Some(generation) = view::integer(&new, &["observedGeneration"]).filter(|number| *number < 0) {
        let message = "must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, message));
    }
    let class = view::text(&new, &["qosClass"]);
    if class != view::text(&old, &["qosClass"]) {
        errors.push(FieldError::invalid(
            &path.child("qosClass"),
            BadValue::named(class),
            "field is immutable",
        ));
    }
    transitions(&new, &old, old_spec, &path, errors);
    claim_statuses(&new, spec, &path.child("resourceClaimStatuses"), errors);
    addresses(&new, &old, "podIPs", &path, errors);
    host_addresses(&new, &old, &path, errors);
    for list in LISTS {
        users(&new, list, spec, &path.child(list), errors);
    }
}

fn conditions(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, condition) in view::items(status, &["conditions"]).iter().enumerate() {
        let path = path.index(index);
        if let Some(generation) =
            view::integer(condition, &["observedGeneration"]).filter(|number| *number < 0)
        {
            let message = "must be a non-negative integer";
            errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, message));
        }
        let kind = view::text(condition, &["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            check::qualified_name(kind, &path.child("Type"), errors);
        }
    }
}

fn nominated_node(new: &Value, old: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let node = view::text(new, &["nominatedNodeName"]);
    if node.is_empty() || node == view::text(old, &["nominatedNodeName"]) {
        return;
    }
    check::dns_subdomain(node, path, errors);
    if !view::text(spec, &["nodeName"]).is_empty() {
        let message = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(path, message));
    }
}

/// Rejects that a terminated container leaves this state, unless its restart policy allows it.
fn transitions(new: &Value, old: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let all_may_restart = all_may_restart(spec);
    for (list, containers) in LISTS.into_iter().zip(["containers", "initContainers", ""]) {
        if all_may_restart && !containers.is_empty() {
            continue;
        }
        let list_path = path.child(list);
        for (index, old) in view::items(old, &[list]).iter().enumerate() {
            let Some(terminated) = view::at(old, &["state", "terminated"]) else { continue };
            let name = view::text(old, &["name"]);
            let named = |other: &&Value| view::text(other, &["name"]) == name;
            let is_back = view::items(new, &[list])
                .iter()
                .find(named)
                .is_some_and(|new| view::at(new, &["state", "terminated"]).is_none());
            let code = view::integer(terminated, &["exitCode"]).unwrap_or(0);
            let container = view::items(spec, &[containers]).iter().find(named);
            if is_back && !container.is_some_and(|container| restarts(container, spec, code)) {
                let message = "may not be transitioned to non-terminated state";
                errors.push(FieldError::forbidden(&list_path.index(index).child("state"), message));
            }
        }
    }
}

fn all_may_restart(spec: &Value) -> bool {
    ["containers", "initContainers"].iter().flat_map(|list| view::items(spec, &[list])).any(|container| {
        let rules = view::items(container, &["restartPolicyRules"]);
        rules.iter().any(|rule| view::text(rule, &["action"]) == "RestartAllContainers")
    })
}

/// Returns true if a container is restarted after it terminated with this exit code.
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let own = view::text(container, &["restartPolicy"]);
    let rules = if own.is_empty() { &[] } else { view::items(container, &["restartPolicyRules"]) };
    let applies = |rule: &&Value| {
        let among = view::items(rule, &["exitCodes", "values"]).iter().any(|value| *value == code);
        match view::text(rule, &["exitCodes", "operator"]) {
            "In" => among,
            "NotIn" => !among,
            _ => false,
        }
    };
    if let Some(rule) = rules.iter().find(applies)
        && matches!(view::text(rule, &["action"]), "Restart" | "RestartAllContainers")
    {
        return true;
    }
    match if own.is_empty() { view::text(spec, &["restartPolicy"]) } else { own } {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn claim_statuses(status: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let claims: BTreeSet<&str> = check::names(view::items(spec, &["resourceClaims"])).collect();
    let mut seen = BTreeSet::new();
    for (index, claim) in view::items(status, &["resourceClaimStatuses"]).iter().enumerate() {
        let path = path.index(index);
        let name = view::text(claim, &["name"]);
        if !claims.contains(name) {
            let message = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(&path.child("name"), name, message));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if let Some(object) = claim.get("resourceClaimName").and_then(Value::as_str) {
            check::dns_subdomain(object, &path.child("resourceClaimName"), errors);
        }
    }
}

/// Allows one address per IP family. Addresses that are already stored may keep a legacy notation.
fn addresses(new: &Value, old: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let texts = |status: &Value| -> Vec<String> {
        view::items(status, &[field]).iter().map(|address| view::text(address, &["ip"]).to_owned()).collect()
    };
    let (new_texts, old_texts) = (texts(new), texts(old));
    let path = path.child(field);
    for (index, text) in new_texts.iter().enumerate() {
        errors.extend(name::ip_in_old_field(&path.index(index), text, !old_texts.contains(text)));
    }
    if new_texts.len() > 1 {
        let families: BTreeSet<bool> =
            new_texts.iter().filter_map(|text| name::parse_ip_sloppy(text)).map(|ip| ip.is_ipv4()).collect();
        let malformed = new_texts.iter().position(|text| name::parse_ip_sloppy(text).is_none());
        if let Some(index) = malformed {
            let text = &new_texts[index];
            let message = format!("failed to check for dual stack with error:invalid IP[{index}]: {text}");
            errors.push(FieldError::internal(&path, message));
        }
        if malformed.is_some() || families.len() != 2 || new_texts.len() > 2 {
            let message = "may specify no more than one IP for each IP family";
            let shape = if field == "podIPs" { "[@core.PodIP" } else { "[@core.HostIP" };
            let found = internal_types::printed(shape, new.get(field));
            errors.push(FieldError::invalid(&path, found, message));
        }
    }
}

fn host_addresses(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(first) = view::items(new, &["hostIPs"]).first() else { return };
    let first = view::text(first, &["ip"]);
    if first != view::text(new, &["hostIP"]) {
        let list = path.child("hostIPs");
        let path = list.index(0);
        errors.push(FieldError::invalid(&path.child("ip"), first, "must be equal to `hostIP`"));
    }
    addresses(new, old, "hostIPs", path, errors);
}

fn users(status: &Value, list: &str, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let is_windows = view::text(spec, &["os", "name"]) == "windows";
    for (index, container) in view::items(status, &[list]).iter().enumerate() {
        let path = path.index(index);
        let Some(user) = view::at(container, &["user", "linux"]) else { continue };
        let path = path.child("user.linux");
        if is_windows {
            errors.push(FieldError::forbidden(&path, "cannot be set for a windows pod"));
            continue;
        }
        check::identity(user, "uid", &path, errors);
        check::identity(user, "gid", &path, errors);
        let groups = path.child("supplementalGroups");
        for (index, group) in view::items(user, &["supplementalGroups"]).iter().enumerate() {
            let group = group.as_i64().unwrap_or(0);
            check::in_range(group, 0, i64::from(i32::MAX), &groups.index(index), errors);
        }
    }
}

/// Returns warnings about addresses that are not in canonical form.
pub(super) fn warnings(pod: &Value) -> Vec<String> {
    let root = Path::root("status");
    let mut warnings = Vec::new();
    for field in ["podIPs", "hostIPs"] {
        let list = root.child(field);
        for (index, address) in view::items(pod, &["status", field]).iter().enumerate() {
            let path = list.index(index);
            warnings.extend(name::ip_warnings(&path.child("ip"), view::text(address, &["ip"])));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: Value, old: Value, new: Value, expected: &str) {
        let mut errors = ErrorList::new();
        let pod = |status: Value| json!({"spec": spec, "status": status});
        validate(&pod(new), &pod(old), &mut errors);
        assert_eq!(errors.to_string(), expected);
    }

    #[test]
    fn terminated_container_stays_terminated_unless_restarted() {
        let ended = json!({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 1}}}]});
        let running = json!({"containerStatuses": [{"name": "a", "state": {"running": {}}}]});
        let spec = |policy: &str| json!({"restartPolicy": policy, "containers": [{"name": "a"}]});
        check(spec("Always"), ended.clone(), running.clone(), "");
        check(spec("OnFailure"), ended.clone(), running.clone(), "");
        let expected =
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        check(spec("Never"), ended, running, expected);
    }

    #[test]
    fn invalid_status_is_rejected() {
        check(
            json!({}),
            json!({"qosClass": "BestEffort"}),
            json!({"qosClass": "Burstable"}),
            "status.qosClass: Invalid value: \"Burstable\": field is immutable",
        );
        check(
            json!({"nodeName": "n"}),
            json!({}),
            json!({"nominatedNodeName": "m"}),
            "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
        );
        let addresses = json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]});
        check(
            json!({}),
            json!({}),
            addresses,
            "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_stored() {
        let sent = json!({
            "containerStatuses": [{"name": "a", "volumeMounts": [{"name": "v", "volumeStatus": {"image": {}}}]}],
            "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}],
        });
        let mut new = sent.clone();
        drop_disabled_fields(&mut new, &json!({}));
        assert_eq!(new, json!({"containerStatuses": [{"name": "a", "volumeMounts": [{"name": "v"}]}]}));
        let mut unchanged = sent.clone();
        drop_disabled_fields(&mut unchanged, &sent);
        assert_eq!(unchanged, sent);
    }

    #[test]
    fn omitted_observed_generations_are_carried_over() {
        let old = json!({"status": {"qosClass": "BestEffort", "observedGeneration": 3, "conditions": [
            {"type": "Ready", "observedGeneration": 2}
        ]}});
        let mut new =
            json!({"metadata": {}, "status": {"conditions": [{"type": "Ready"}, {"type": "Other"}]}});
        prepare(&mut new, &old);
        assert_eq!(
            new["status"],
            json!({"qosClass": "BestEffort", "observedGeneration": 3, "conditions": [
                {"type": "Ready", "observedGeneration": 2}, {"type": "Other"}
            ]})
        );
    }
}
