//! Groups of the Kubernetes community, which only it may extend.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::view;

const ANNOTATION: &str = "api-approved.kubernetes.io";

const DISCUSSION: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Such a definition says where it was approved, or that it was not.
pub(super) fn check(object: &Value, errors: &mut ErrorList) {
    if !is_protected(view::text(object, &["spec", "group"])) {
        return;
    }
    let approval = view::text(object, &["metadata", "annotations", ANNOTATION]);
    let path = Path::root("metadata.annotations");
    let path = path.key(ANNOTATION);
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    if approval.is_empty() {
        errors.push(FieldError::required(&path, format!("{must}, {DISCUSSION}")));
    } else if !approval.starts_with("unapproved") && !is_url(approval) {
        let detail =
            format!("{must} with either a URL or a reason starting with \"unapproved\", {DISCUSSION}");
        errors.push(FieldError::invalid(&path, approval, detail));
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && rest.split('/').next().is_some_and(|host| !host.is_empty())
    })
}
