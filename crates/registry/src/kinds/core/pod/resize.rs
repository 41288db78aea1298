//! The subresource `resize`: changes of CPU and memory of a running pod.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Value, json};

use super::{keep_metadata, qos_class, sameness, validate_any};
use crate::kinds::core::pod_spec::annotation::MIRROR;
use crate::kinds::core::pod_spec::container;
use crate::view;

const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY_BOTH: &str = "only cpu and memory resources are mutable";

/// Reverts all changes except those of resources and resize policies. If the containers themselves differ, nothing is
/// reverted, so that validation rejects the update.
pub fn prepare_resize(new: &mut Value, old: &Value) {
    let count = |pod: &Value, list: &str| view::items(pod, &["spec", list]).len();
    if LISTS.iter().any(|list| count(new, list) != count(old, list)) {
        return;
    }
    let mut spec = old.get("spec").cloned().unwrap_or(Value::Null);
    for list in LISTS {
        resized_containers(&mut spec, view::items(new, &["spec", list]), list);
    }
    replace(&mut spec, "resources", view::at(new, &["spec", "resources"]));
    keep_metadata(new, old);
    replace(new, "status", old.get("status"));
    replace(new, "spec", Some(&spec));
}

fn resized_containers(spec: &mut Value, new: &[Value], list: &str) {
    let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { return };
    let is_same = |(old, new): (&Value, &Value)| view::text(old, &["name"]) == view::text(new, &["name"]);
    if !containers.iter().zip(new).all(is_same) {
        *containers = new.to_vec();
        return;
    }
    for (container, new) in containers.iter_mut().zip(new) {
        for field in ["resources", "resizePolicy"] {
            replace(container, field, new.get(field));
        }
    }
}

fn replace(object: &mut Value, field: &str, value: Option<&Value>) {
    let Value::Object(fields) = object else { return };
    match value {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// Validates a resize of a pod.
pub fn validate_resize(new: &Value, old: &Value, errors: &mut ErrorList) {
    let root = Path::root("");
    if view::at(old, &["metadata", "annotations", MIRROR]).is_some() {
        return errors.push(FieldError::forbidden(&root, "static pods cannot be resized"));
    }
    if view::text(old, &["spec", "os", "name"]) == "windows" {
        return errors.push(FieldError::forbidden(&root, "windows pods cannot be resized"));
    }
    validate_any(new, errors);
    let path = Path::root("spec");
    class_and_node(new, old, &path, errors);
    let mut copy = new.get("spec").cloned().unwrap_or(Value::Null);
    let (new, old_spec) = (new.get("spec").unwrap_or(&Value::Null), old.get("spec").unwrap_or(&Value::Null));
    pod_level(&mut copy, new, old_spec, &path, errors);
    if !view::items(old, &["status", "nodeAllocatableResourceClaimStatuses"]).is_empty() {
        let message = "pods with node allocatable resource claims cannot be resized";
        errors.push(FieldError::forbidden(&path, message));
    }
    if !same_containers(new, old_spec, &path, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        removed_from_containers(new, old_spec, list, &path.child(list), errors);
    }
    regular_containers(&mut copy, old_spec, &path, errors);
    init_containers(&mut copy, old_spec, &path.child("initContainers"), errors);
    if errors.is_empty() && !sameness::is_same(Some(&copy), Some(old_spec)) {
        errors.push(FieldError::forbidden(&path, ONLY_BOTH));
    }
}

fn class_and_node(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let reported_class = view::text(old, &["status", "qosClass"]);
    let class = if reported_class.is_empty() { qos_class(old) } else { reported_class };
    if class != qos_class(new) {
        let found = BadValue::named(view::text(new, &["status", "qosClass"]));
        let message = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(path, found, message));
    }
    // Kubelets that support resize report the resources of running containers.
    let statuses = view::items(old, &["status", "containerStatuses"]);
    let running = statuses.iter().find(|status| view::at(status, &["state", "running"]).is_some());
    if running.is_some_and(|status| status.get("resources").is_none()) {
        errors.push(FieldError::forbidden(path, "Pod running on node without support for resize"));
    }
}

fn pod_level(copy: &mut Value, new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let is_set = |spec: &Value| {
        ["requests", "limits"].iter().any(|list| view::fields(spec, &["resources", list]).next().is_some())
    };
    if !is_set(new) && !is_set(old) {
        return;
    }
    let resources = path.child("resources");
    if old.get("resources").is_some() {
        if new.get("resources").is_none() {
            return errors.push(FieldError::forbidden(&resources, "pod-level resources cannot be removed"));
        }
        for list in ["requests", "limits"] {
            if is_removed(&new["resources"], &old["resources"], list) {
                let message = format!("pod-level resource {list} cannot be removed");
                errors.push(FieldError::forbidden(&resources.child(list), message));
            }
        }
    }
    restore_amounts(copy, old);
    if !sameness::is_same(copy.get("resources"), old.get("resources")) {
        errors.push(FieldError::forbidden(path, format!("{ONLY_BOTH} at pod-level")));
    }
}

fn is_removed(new: &Value, old: &Value, list: &str) -> bool {
    view::fields(old, &[list]).any(|(resource, _)| view::at(new, &[list, resource]).is_none())
}

/// Restores CPU and memory of a container or of a spec.
fn restore_amounts(new: &mut Value, old: &Value) {
    let Some(Value::Object(resources)) = new.get_mut("resources") else { return };
    for list in ["requests", "limits"] {
        let amounts = resources.entry(list).or_insert_with(|| json!({}));
        for resource in ["cpu", "memory"] {
            replace(amounts, resource, view::at(old, &["resources", list, resource]));
        }
        if amounts.as_object().is_some_and(serde_json::Map::is_empty) {
            resources.remove(list);
        }
    }
}

fn same_containers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    for list in LISTS {
        let path = path.child(list);
        let (new, old) = (view::items(new, &[list]), view::items(old, &[list]));
        if new.len() != old.len() {
            let message = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(&path, message));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if view::text(new, &["name"]) != view::text(old, &["name"]) {
                let message = format!("{list} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(&path.index(index).child("name"), message));
            }
        }
    }
    errors.len() == before
}

fn removed_from_containers(new: &Value, old: &Value, list: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, (new, old)) in view::items(new, &[list]).iter().zip(view::items(old, &[list])).enumerate() {
        let path = path.index(index);
        let path = path.child("resources");
        let of = |container: &Value| container.get("resources").cloned().unwrap_or(Value::Null);
        for amounts in ["requests", "limits"] {
            if is_removed(&of(new), &of(old), amounts) {
                let message = format!("resource {amounts} cannot be removed");
                errors.push(FieldError::forbidden(&path.child(amounts), message));
            }
        }
    }
}

fn regular_containers(copy: &mut Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(containers) = copy.get_mut("containers").and_then(Value::as_array_mut) else { return };
    for (new, old) in containers.iter_mut().zip(view::items(old, &["containers"])) {
        restore_amounts(new, old);
        if !sameness::is_same(Some(new), Some(old)) {
            errors.push(FieldError::forbidden(path, ONLY_BOTH));
        }
    }
}

fn init_containers(copy: &mut Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(containers) = copy.get_mut("initContainers").and_then(Value::as_array_mut) else { return };
    for (index, (new, old)) in containers.iter_mut().zip(view::items(old, &["initContainers"])).enumerate() {
        let is_changed = !sameness::is_same(Some(new), Some(old));
        restore_amounts(new, old);
        if !sameness::is_same(Some(new), Some(old)) {
            let message = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(FieldError::forbidden(&path.index(index), message));
        }
        let restarts = view::items(new, &["resizePolicy"])
            .iter()
            .any(|policy| view::text(policy, &["restartPolicy"]) == "RestartContainer");
        if is_changed && restarts && !container::is_restartable(new) {
            let message =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.push(FieldError::forbidden(&path.index(index), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::kinds::core::pod::Pod;

    fn pod(resources: Value) -> Value {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "b", "resources": resources}]}});
        Pod.set_defaults(&mut pod);
        Pod.prepare_for_create(&mut pod, coracle_meta::time::Time(0));
        pod
    }

    fn errors(new: Value, old: &Value) -> String {
        let mut new = pod(new);
        prepare_resize(&mut new, old);
        let mut errors = ErrorList::new();
        validate_resize(&new, old, &mut errors);
        errors.to_string()
    }

    #[test]
    fn cpu_and_memory_may_change() {
        let old = pod(json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        assert_eq!(errors(json!({"requests": {"cpu": "2", "memory": "2Gi"}}), &old), "");
        assert_eq!(
            errors(json!({"requests": {"cpu": "2"}}), &old),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
        );
        assert_eq!(
            errors(json!({"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}}), &old),
            "spec: Forbidden: only cpu and memory resources are mutable"
        );
    }

    #[test]
    fn qos_class_change_is_rejected() {
        let old = pod(json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        let limits = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(
            errors(limits, &old),
            "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"
        );
    }
}
