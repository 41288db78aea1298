//! AppArmor profiles that old clients set as annotations.

use coracle_meta::field::Path;
use serde_json::{Value, json};

use super::parts;
use crate::kinds::core::pod_spec::annotation::{APP_ARMOR, USE_APP_ARMOR_FIELD, profile_of_annotation};
use crate::kinds::core::pod_spec::container;
use crate::kinds::core::pod_spec::defaults::{each, within};
use crate::view;

/// Sets the AppArmor field of each container that has an annotation but no field.
pub(super) fn copy_annotations_to_fields(pod: &mut Value) {
    if view::text(pod, &["spec", "os", "name"]) == "windows" {
        return;
    }
    let annotations = view::at(pod, &["metadata", "annotations"]).cloned().unwrap_or(Value::Null);
    let pod_profile = view::at(pod, &["spec", "securityContext", "appArmorProfile"]).cloned();
    within(pod, "spec", |spec| {
        for list in container::LISTS {
            each(spec, list, |container| copy(container, &annotations, pod_profile.as_ref()));
        }
    });
}

/// Warnings about the annotations of containers that have no AppArmor field of their own.
///
/// kube-apiserver does not warn of an annotation that repeats the profile of the pod.
pub(super) fn annotation_warnings(pod: &Value) -> Vec<String> {
    if view::text(pod, &["spec", "os", "name"]) == "windows" {
        return Vec::new();
    }
    let (metadata, spec) = parts(pod);
    let path = Path::root("metadata.annotations");
    let pod_profile = view::at(spec, &["securityContext", "appArmorProfile"]);
    let mut warnings = Vec::new();
    container::for_each(spec, &Path::NIL, |container, _| {
        let key = format!("{APP_ARMOR}{}", view::text(container, &["name"]));
        let has_own = view::at(container, &["securityContext", "appArmorProfile"]).is_some();
        let Some(annotation) = view::at(metadata, &["annotations", &key]).and_then(Value::as_str) else {
            return;
        };
        let profile = profile_of_annotation(annotation);
        if !has_own && (profile.is_none() || profile.as_ref() != pod_profile) {
            warnings.push(format!("{}: {USE_APP_ARMOR_FIELD}", path.key(&key)));
        }
    });
    warnings
}

fn copy(container: &mut Value, annotations: &Value, pod_profile: Option<&Value>) {
    let key = format!("{APP_ARMOR}{}", view::text(container, &["name"]));
    let annotation = annotations.get(&key).and_then(Value::as_str);
    let Some(profile) = annotation.and_then(profile_of_annotation) else { return };
    let has_own = view::at(container, &["securityContext", "appArmorProfile"]).is_some();
    if has_own || pod_profile == Some(&profile) {
        return;
    }
    view::set_default(container, "securityContext", || json!({}));
    within(container, "securityContext", |context| {
        view::set_default(context, "appArmorProfile", || profile);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotation_without_a_field_causes_a_warning() {
        let warning = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: deprecated since \
                       v1.30; use the \"appArmorProfile\" field instead";
        let runtime_default = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
        for (annotation, pod_context, container_context, warned) in [
            ("runtime/default", json!({}), json!({}), true),
            ("localhost/x", json!({}), json!({}), true),
            ("localhost/", json!({}), json!({}), true),
            ("runtime/default", runtime_default.clone(), json!({}), false),
            ("unconfined", runtime_default.clone(), json!({}), true),
            ("runtime/default", json!({}), runtime_default, false),
        ] {
            let pod = json!({
                "metadata": {"annotations": {format!("{APP_ARMOR}a"): annotation}},
                "spec": {
                    "securityContext": pod_context,
                    "containers": [{"name": "a", "securityContext": container_context}],
                },
            });
            let expected: &[&str] = if warned { &[warning] } else { &[] };
            assert_eq!(annotation_warnings(&pod), expected, "{pod}");
        }
    }
}
