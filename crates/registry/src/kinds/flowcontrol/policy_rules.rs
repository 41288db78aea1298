//! Rules of flow schemas, which match requests by subject and target.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Kinds of subjects, and the fields that describe them.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

/// Validates a rule, which needs at least one subject and one target.
pub(super) fn check(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let subjects = view::items(rule, &["subjects"]);
    let subjects_path = path.child("subjects");
    if subjects.is_empty() {
        errors.push(FieldError::required(&subjects_path, "subjects must contain at least one value"));
    }
    for (index, subject) in subjects.iter().enumerate() {
        check_subject(subject, &subjects_path.index(index), errors);
    }
    let (resources, others) =
        (view::items(rule, &["resourceRules"]), view::items(rule, &["nonResourceRules"]));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
    for (index, rule) in resources.iter().enumerate() {
        check_resource_rule(rule, &path.child("resourceRules").index(index), errors);
    }
    for (index, rule) in others.iter().enumerate() {
        check_non_resource_rule(rule, &path.child("nonResourceRules").index(index), errors);
    }
}

fn check_subject(subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = view::text(subject, &["kind"]);
    let Some((_, field)) = SUBJECTS.iter().find(|(supported, _)| *supported == kind) else {
        let kinds = SUBJECTS.map(|(kind, _)| kind);
        errors.push(FieldError::not_supported(&path.child("kind"), BadValue::named(kind), &kinds));
        return;
    };
    let subject_path = path.child(field);
    match subject.get(field) {
        None => {
            let detail = format!("{field} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(&subject_path, detail));
        }
        Some(subject) if kind == "ServiceAccount" => check_service_account(subject, &subject_path, errors),
        Some(subject) => {
            rules::required(&subject_path.child("name"), view::text(subject, &["name"]), errors);
        }
    }
    // kube-apiserver reports the service account first, and the group last.
    for field in ["serviceAccount", "user", "group"] {
        let Some((owner, _)) = SUBJECTS.iter().find(|(_, supported)| *supported == field) else { continue };
        if *owner != kind && subject.get(field).is_some() {
            let detail = format!("{field} is forbidden when subject kind is not '{owner}'");
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}

fn check_service_account(subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let account = view::text(subject, &["name"]);
    if account != "*" {
        rules::required_name(&path.child("name"), account, name::dns1123_subdomain, errors);
    }
    let (namespace, path) = (view::text(subject, &["namespace"]), path.child("namespace"));
    if namespace.is_empty() {
        errors.push(FieldError::required(&path, "must specify namespace for service account"));
    } else {
        rules::each_message(&path, namespace, name::dns1123_label(namespace), errors);
    }
}

fn check_resource_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_verbs(rule, path, errors);
    for (field, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let path = path.child(field);
        if view::items(rule, &[field]).is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(&path, detail));
        } else {
            check_lone_wildcard(rule, field, others, &path, errors);
        }
    }
    check_namespaces(rule, &path.child("namespaces"), errors);
}

fn check_namespaces(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let namespaces = view::items(rule, &["namespaces"]);
    if namespaces.is_empty() && !view::is_true(rule, &["clusterScope"]) {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(path, detail));
    } else if !check_lone_wildcard(rule, "namespaces", "namespaces", path, errors) {
        for (index, namespace) in namespaces.iter().filter_map(Value::as_str).enumerate() {
            for message in name::dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.push(FieldError::invalid(&path.index(index), namespace, detail));
            }
        }
    }
}

fn check_non_resource_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_verbs(rule, path, errors);
    let urls = view::items(rule, &["nonResourceURLs"]);
    let path = path.child("nonResourceURLs");
    if urls.is_empty() {
        errors.push(FieldError::required(&path, "nonResourceURLs must contain at least one value"));
    } else if !check_lone_wildcard(rule, "nonResourceURLs", "non-resource URLs", &path, errors) {
        for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
            if let Some(detail) = url_fault(url) {
                errors.push(FieldError::invalid(&path.index(index), url, detail));
            }
        }
    }
}

fn check_verbs(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("verbs");
    let verbs = view::items(rule, &["verbs"]);
    if verbs.is_empty() {
        errors.push(FieldError::required(&path, "verbs must contain at least one value"));
    } else if !check_lone_wildcard(rule, "verbs", "verbs", &path, errors) {
        let supported = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
        if !verbs.iter().all(supported) {
            let found = BadValue::json(&Value::Array(verbs.to_vec()));
            errors.push(FieldError::not_supported(&path, found, &VERBS));
        }
    }
}

/// Returns true if a list contains the wildcard, which must be its only item.
fn check_lone_wildcard(
    rule: &Value,
    field: &str,
    others: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> bool {
    let items = view::items(rule, &[field]);
    let wildcard = items.iter().any(|item| item == "*");
    if wildcard && items.len() > 1 {
        let detail = format!("if '*' is present, must not specify other {others}");
        errors.push(FieldError::invalid(path, BadValue::json(&Value::Array(items.to_vec())), detail));
    }
    wildcard
}

/// Returns the fault of a non-resource URL, if it has one.
fn url_fault(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}
