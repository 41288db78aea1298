//! The subresource `ephemeralcontainers`: containers added to a running pod for debugging.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use serde_json::Value;

use super::{keep_metadata, sameness, update, validate_any};
use crate::kinds::core::pod_spec::annotation::MIRROR;
use crate::view;

/// Reverts all changes except those of the ephemeral containers.
pub fn prepare_ephemeral_containers(new: &mut Value, old: &Value) {
    let containers = view::at(new, &["spec", "ephemeralContainers"]).cloned();
    keep_metadata(new, old);
    for part in ["spec", "status"] {
        if let (Value::Object(new), Some(old)) = (&mut *new, old.get(part)) {
            new.insert(part.to_owned(), old.clone());
        }
    }
    if let Some(Value::Object(spec)) = new.get_mut("spec") {
        match containers {
            Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
            None => spec.remove("ephemeralContainers"),
        };
    }
}

/// Validates an update of the ephemeral containers: existing ones must not change.
pub fn validate_ephemeral_containers(new: &Value, old: &Value, errors: &mut ErrorList) {
    if view::at(old, &["metadata", "annotations", MIRROR]).is_some() {
        let message = "static pods do not support ephemeral containers";
        return errors.push(FieldError::forbidden(&Path::root(""), message));
    }
    validate_any(new, errors);
    update::validate_annotations(new, old, errors);
    let path = Path::root("spec.ephemeralContainers");
    for old in view::items(old, &["spec", "ephemeralContainers"]) {
        let name = view::text(old, &["name"]);
        // Of several with the same name the last one counts.
        let mut candidates = view::items(new, &["spec", "ephemeralContainers"]).iter().rev();
        match candidates.find(|new| view::text(new, &["name"]) == name) {
            None => {
                let message = format!("existing ephemeral containers {} may not be removed\n", quoted(name));
                errors.push(FieldError::forbidden(&path, message));
            }
            Some(new) if !sameness::is_same(Some(old), Some(new)) => {
                let difference = update::difference("@core.EphemeralContainer", old, new);
                let name = quoted(name);
                let message =
                    format!("existing ephemeral containers {name} may not be changed\n{difference}");
                errors.push(FieldError::forbidden(&path, message));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::Kind;
    use crate::kinds::core::pod::Pod;

    fn pod(containers: Value) -> Value {
        let mut pod =
            json!({"spec": {"containers": [{"name": "a", "image": "b"}], "ephemeralContainers": containers}});
        Pod.set_defaults(&mut pod);
        pod
    }

    #[test]
    fn ephemeral_container_can_be_added_but_not_removed() {
        let (none, one) = (pod(json!([])), pod(json!([{"name": "debug", "image": "busybox"}])));
        let mut errors = ErrorList::new();
        validate_ephemeral_containers(&one, &none, &mut errors);
        assert!(errors.is_empty(), "{errors}");
        validate_ephemeral_containers(&none, &one, &mut errors);
        assert_eq!(
            errors.to_string(),
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed\n"
        );
    }

    #[test]
    fn fields_of_regular_containers_are_rejected() {
        let disallowed = json!([{"name": "debug", "image": "b", "ports": [{"containerPort": 1}], "targetContainerName": "x"}]);
        let mut errors = ErrorList::new();
        validate_ephemeral_containers(&pod(disallowed), &pod(json!([])), &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.ephemeralContainers[0].targetContainerName", "spec.ephemeralContainers[0].ports"]
        );
    }

    #[test]
    fn changes_of_other_fields_are_reverted() {
        let old = pod(json!([]));
        let mut new = pod(json!([{"name": "debug", "image": "busybox"}]));
        new["spec"]["nodeName"] = "elsewhere".into();
        prepare_ephemeral_containers(&mut new, &old);
        assert_eq!(new["spec"].get("nodeName"), None);
        assert_eq!(view::items(&new, &["spec", "ephemeralContainers"]).len(), 1);
    }
}
