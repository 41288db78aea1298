//! Validation of updates of a Job's pod template, which is immutable unless the Job is suspended and has no pods.

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::job_status;
use crate::kinds::apps::checks::{carry_over, count, ensure};
use crate::kinds::rules;
use crate::view;

/// Validates an update of the template.
pub(super) fn validate(spec: &Value, old_job: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let template = spec.get("template").unwrap_or(&Value::Null);
    let mut allowed = old_job["spec"].get("template").cloned().unwrap_or(Value::Null);
    if !is_idle(old_job) {
        require_same(template, &allowed, "@core.PodTemplateSpec", &path.child("template"), errors);
        return;
    }
    allow_scheduling(&mut allowed, template);
    allow_resources(&mut allowed, template);
    let pods = [template, &allowed].map(|template| template.get("spec").unwrap_or(&Value::Null));
    require_same(pods[0], pods[1], "@core.PodSpec", &path.child("template.spec"), errors);
}

fn require_same(new: &Value, allowed: &Value, shape: &str, path: &Path<'_>, errors: &mut ErrorList) {
    rules::unchanged(shape, path, Some(new), Some(allowed), errors);
}

/// Whether a Job is suspended and has no pods, and either never started or reports that they are gone.
fn is_idle(job: &Value) -> bool {
    let status = job.get("status").unwrap_or(&Value::Null);
    let never_started = status.get("startTime").is_none();
    view::is_true(job, &["spec", "suspend"])
        && (never_started || job_status::has_condition(status, "Suspended"))
        && count(status, "active") == 0
}

/// Allows changes of scheduling directives.
fn allow_scheduling(allowed: &mut Value, new: &Value) {
    let new_pod = new.get("spec").unwrap_or(&Value::Null);
    let pod = ensure(allowed, "spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        carry_over(pod, new_pod, field);
    }
    let new_affinity = new_pod.get("affinity").unwrap_or(&Value::Null);
    // The comparison treats an empty affinity as absent, which clearing it needs.
    carry_over(ensure(pod, "affinity"), new_affinity, "nodeAffinity");
}

/// Allows changes of resources, if the names of containers and their order are unchanged.
fn allow_resources(allowed: &mut Value, new: &Value) {
    for field in ["containers", "initContainers"] {
        let new_containers = view::items(new, &["spec", field]);
        let Some(Value::Array(containers)) = allowed.get_mut("spec").and_then(|pod| pod.get_mut(field))
        else {
            continue;
        };
        if containers.len() != new_containers.len() {
            continue;
        }
        for (container, new_container) in containers.iter_mut().zip(new_containers) {
            if container.get("name") == new_container.get("name") {
                carry_over(container, new_container, "resources");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(status: Value, suspend: bool, pod: Value) -> String {
        let old_pod = json!({"containers": [{"name": "a", "image": "x"}], "hostNetwork": true});
        let job = json!({"spec": {"suspend": suspend, "template": {"spec": old_pod}}, "status": status});
        let mut new_pod = old_pod;
        if let (Value::Object(fields), Value::Object(extra)) = (&mut new_pod, pod) {
            fields.extend(extra);
        }
        let mut errors = ErrorList::new();
        validate(&json!({"template": {"spec": new_pod}}), &job, &Path::root("spec"), &mut errors);
        errors.iter().map(|error| error.field.as_str()).collect()
    }

    #[test]
    fn scheduling_and_resources_of_suspended_job_are_mutable() {
        let moved = json!({"nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": {"x": 1}}});
        let resized =
            json!({"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}]});
        let repainted = json!({"containers": [{"name": "a", "image": "y"}]});
        for allowed in [&moved, &resized] {
            assert_eq!(check(json!({}), true, allowed.clone()), "");
            assert_eq!(check(json!({}), false, allowed.clone()), "spec.template");
            assert_eq!(check(json!({"active": 1}), true, allowed.clone()), "spec.template");
            assert_eq!(check(json!({"startTime": "x"}), true, allowed.clone()), "spec.template");
            let suspended =
                json!({"startTime": "x", "conditions": [{"type": "Suspended", "status": "True"}]});
            assert_eq!(check(suspended, true, allowed.clone()), "");
        }
        assert_eq!(check(json!({}), true, repainted), "spec.template.spec");
        assert_eq!(
            check(json!({}), true, json!({"affinity": {"podAffinity": {"x": 1}}})),
            "spec.template.spec"
        );
    }
}
