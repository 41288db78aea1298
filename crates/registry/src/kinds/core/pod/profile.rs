//! AppArmor profiles that old clients give as annotations.

use serde_json::{Value, json};

use crate::kinds::core::pod_spec::annotation::APP_ARMOR;
use crate::kinds::core::pod_spec::container;
use crate::kinds::core::pod_spec::defaults::{each, within};
use crate::view;

/// Fills in the field of each container that has an annotation but no field.
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

fn copy(container: &mut Value, annotations: &Value, pod_profile: Option<&Value>) {
    let key = format!("{APP_ARMOR}{}", view::text(container, &["name"]));
    let Some(profile) = annotations.get(&key).and_then(Value::as_str).and_then(field) else { return };
    let has_own = view::at(container, &["securityContext", "appArmorProfile"]).is_some();
    if has_own || pod_profile == Some(&profile) {
        return;
    }
    view::set_default(container, "securityContext", || json!({}));
    within(container, "securityContext", |context| {
        view::set_default(context, "appArmorProfile", || profile);
    });
}

fn field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            // What validation would refuse is not copied.
            let fits = !name.is_empty() && name.trim() == name;
            fits.then(|| json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}
