//! Pod annotations that have a meaning in Kubernetes.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use serde_json::{Value, json};

use super::{check, container, toleration};
use crate::kinds::ratchet;
use crate::view;

/// Marks a mirror pod, which represents a static pod of its node.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the annotations that preceded the field `appArmorProfile`.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Warning about an annotation of [`APP_ARMOR`] without the field.
pub(crate) const USE_APP_ARMOR_FIELD: &str =
    "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Validates keys and total size of annotations.
pub(crate) fn validate_keys(metadata: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let annotations = view::fields(metadata, &["annotations"]);
    let annotations = annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(coracle_meta::object::validate_annotations(annotations, path));
}

/// Validates annotations that have a meaning, on a pod or a template.
pub(crate) fn validate(metadata: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let value = |key: &str| view::at(metadata, &["annotations", key]).and_then(Value::as_str);
    if let Some(mirror) = value(MIRROR)
        && view::text(spec, &["nodeName"]).is_empty()
    {
        let message = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), mirror, message));
    }
    if let Some(text) = value(TOLERATIONS).filter(|text| !text.is_empty()) {
        tolerations(text, path, errors);
    }
    if let Some(cost) = value(DELETION_COST)
        && !is_deletion_cost(cost)
    {
        let error = FieldError::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer");
        errors.push(error.unless(ratchet::DELETION_COST));
    }
    for (key, value) in view::fields(metadata, &["annotations"]) {
        let value = value.as_str().unwrap_or_default();
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp(value, &path.child(key), errors);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(container, value, spec, &path.key(key), errors);
        }
    }
}

fn tolerations(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match serde_json::from_str::<Vec<Value>>(text) {
        Ok(list) => toleration::validate_tolerations(&list, &path.child(TOLERATIONS), errors),
        Err(error) => errors.push(FieldError::invalid(path, TOLERATIONS, error.to_string())),
    }
}

/// Returns true for an integer without a plus sign or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    cost.parse::<i32>().is_ok() && (cost == "0" || !cost.starts_with(['+', '0']))
}

fn seccomp(profile: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(file) => check::descending_path(file, path, errors),
            None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
        },
    }
}

fn app_armor(name: &str, profile: &str, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut lists = container::LISTS.iter().map(|list| view::items(spec, &[list]));
    if !lists.any(|list| check::names(list).any(|found| found == name)) {
        errors.push(FieldError::invalid(path, name, "container not found"));
    }
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
        let message = format!("invalid AppArmor profile name: {}", quoted(profile));
        errors.push(FieldError::invalid(path, profile, message));
    }
}

/// The AppArmor profile of an annotation; `None` if validation would reject the profile.
pub(crate) fn profile_of_annotation(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            let fits = !name.is_empty() && name.trim() == name;
            fits.then(|| json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

/// Checks that annotations do not contradict the fields that replaced them.
pub(crate) fn match_fields(metadata: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let value = |key: &str| view::at(metadata, &["annotations", key]).and_then(Value::as_str);
    let pod_profile = view::at(spec, &["securityContext", "seccompProfile"]);
    if let (Some(annotation), Some(profile)) = (value(SECCOMP_POD), pod_profile) {
        let defaults = &["runtime/default", "docker/default"];
        matches_profile(
            annotation,
            profile,
            "seccomp",
            defaults,
            &path.child("securityContext.seccompProfile"),
            errors,
        );
    }
    container::for_each(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", view::text(container, &["name"]));
        let profile = view::at(container, &["securityContext", "seccompProfile"]);
        if let (Some(annotation), Some(profile)) = (value(&key), profile) {
            let path = path.child("securityContext.seccompProfile");
            let defaults = &["runtime/default", "docker/default"];
            matches_profile(annotation, profile, "seccomp", defaults, &path, errors);
        }
    });
    if view::text(spec, &["os", "name"]) == "windows" {
        return;
    }
    let pod_profile = view::at(spec, &["securityContext", "appArmorProfile"]);
    container::for_each(spec, path, |container, path| {
        let key = format!("{APP_ARMOR}{}", view::text(container, &["name"]));
        let profile = view::at(container, &["securityContext", "appArmorProfile"]).or(pod_profile);
        if let (Some(annotation), Some(profile)) = (value(&key), profile) {
            let path = path.child("securityContext.appArmorProfile");
            matches_profile(annotation, profile, "apparmor", &["runtime/default"], &path, errors);
        }
    });
}

fn matches_profile(
    annotation: &str,
    profile: &Value,
    what: &str,
    defaults: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let file = annotation.strip_prefix("localhost/");
    let (is_same_type, is_same_file) = match view::text(profile, &["type"]) {
        "Unconfined" => (annotation == "unconfined", true),
        "RuntimeDefault" => (defaults.contains(&annotation), true),
        "Localhost" => (file.is_some(), file == profile.get("localhostProfile").and_then(Value::as_str)),
        _ => (true, true),
    };
    if !is_same_type {
        let message = format!("{what} type in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("type"), message));
    } else if !is_same_file {
        let message = format!("{what} profile in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("localhostProfile"), message));
    }
}
