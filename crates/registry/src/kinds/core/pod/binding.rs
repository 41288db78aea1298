//! Binding of a pod to a node.

use std::fmt;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, quoted};
use serde_json::{Value, json};

use crate::view;

/// Reason why a pod cannot be bound. It is returned as a conflict on `pods/binding`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The pod is being deleted.
    Deleted {
        /// Name of the pod.
        pod: String,
    },
    /// The pod is already bound.
    Assigned {
        /// Name of the pod.
        pod: String,
        /// Name of the node that it is bound to.
        node: String,
    },
    /// The pod has scheduling gates.
    Gated {
        /// Name of the pod.
        pod: String,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { pod } => write!(f, "pod {pod} is being deleted, cannot be assigned to a host"),
            Self::Assigned { pod, node } => {
                write!(f, "pod {pod} is already assigned to node {}", quoted(node))
            }
            Self::Gated { pod } => write!(f, "pod {pod} has non-empty .spec.schedulingGates"),
        }
    }
}

impl std::error::Error for BindError {}

/// Validates a Binding.
pub fn validate_binding(binding: &Value, errors: &mut ErrorList) {
    let kind = view::text(binding, &["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        let path = Path::root("target.kind");
        errors.push(FieldError::not_supported(&path, BadValue::from(kind), &["Node", "<empty>"]));
    }
    if view::text(binding, &["target", "name"]).is_empty() {
        errors.push(FieldError::required(&Path::root("target.name"), ""));
    }
}

/// Binds a pod as a Binding requests; `now` is the formatted transition time of its `PodScheduled` condition.
///
/// # Errors
/// If the pod is being deleted, already bound or has scheduling gates.
pub fn bind(pod: &mut Value, binding: &Value, now: &str) -> Result<(), BindError> {
    bind_error(pod).map_or(Ok(()), Err)?;
    let Value::Object(fields) = pod else { return Ok(()) };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    spec["nodeName"] = view::text(binding, &["target", "name"]).into();
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    for map in ["annotations", "labels"] {
        for (key, value) in view::fields(binding, &["metadata", map]) {
            view::set_default(metadata, map, || json!({}));
            metadata[map][key] = value.clone();
        }
    }
    let status = fields.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = &mut *status {
        // The nomination is outdated once the pod is bound.
        status.remove("nominatedNodeName");
    }
    set_condition(status, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

fn bind_error(pod: &Value) -> Option<BindError> {
    let name = view::name(pod).to_owned();
    let node = view::text(pod, &["spec", "nodeName"]);
    if view::at(pod, &["metadata", "deletionTimestamp"]).is_some() {
        Some(BindError::Deleted { pod: name })
    } else if !node.is_empty() {
        Some(BindError::Assigned { pod: name, node: node.to_owned() })
    } else if !view::items(pod, &["spec", "schedulingGates"]).is_empty() {
        Some(BindError::Gated { pod: name })
    } else {
        None
    }
}

/// Sets a condition in the status of a pod. `lastTransitionTime` changes only if the status of the condition does.
pub(super) fn set_condition(status: &mut Value, mut condition: Value, now: &str) {
    view::set_default(status, "conditions", || json!([]));
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let existing = conditions.iter_mut().find(|existing| existing.get("type") == condition.get("type"));
    condition["lastTransitionTime"] = now.into();
    // Written although it is null, as kube-apiserver does.
    condition["lastProbeTime"] = Value::Null;
    match existing {
        Some(existing) => {
            if existing.get("status") == condition.get("status") {
                condition["lastTransitionTime"] =
                    existing.get("lastTransitionTime").cloned().unwrap_or_else(|| now.into());
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_pod_cannot_be_bound_again() {
        let binding =
            json!({"metadata": {"annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}});
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"nominatedNodeName": "m"}});
        assert_eq!(bind(&mut pod, &binding, "2026-01-01T00:00:00Z"), Ok(()));
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["status"].get("nominatedNodeName"), None);
        let error = bind(&mut pod, &binding, "").unwrap_err();
        assert_eq!(error.to_string(), "pod p is already assigned to node \"n\"");
        let mut errors = ErrorList::new();
        validate_binding(&json!({"target": {"kind": "Minion"}}), &mut errors);
        assert_eq!(
            errors.to_string(),
            "[target.kind: Unsupported value: \"Minion\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
        );
    }
}
