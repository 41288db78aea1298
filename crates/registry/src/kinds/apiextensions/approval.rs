//! The `api-approved.kubernetes.io` annotation of definitions in groups of the Kubernetes community.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::view;

const ANNOTATION: &str = "api-approved.kubernetes.io";

const DISCUSSION: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// State of the annotation.
#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    /// It has the URL of the approval.
    Approved,
    /// It states that the API is unapproved.
    Bypassed,
}

impl Approval {
    fn of(definition: &Value) -> Self {
        match view::text(definition, &["metadata", "annotations", ANNOTATION]) {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            text if is_url(text) => Self::Approved,
            _ => Self::Invalid,
        }
    }
}

/// Requires the annotation in a protected group, unless an update leaves its state unchanged.
pub(super) fn check(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let approval = Approval::of(new);
    if !is_protected(view::text(new, &["spec", "group"]))
        || old.is_some_and(|old| Approval::of(old) == approval)
    {
        return;
    }
    let path = Path::root("metadata.annotations");
    let path = path.key(ANNOTATION);
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    match approval {
        Approval::Missing => errors.push(FieldError::required(&path, format!("{must}, {DISCUSSION}"))),
        Approval::Invalid => {
            let found = view::text(new, &["metadata", "annotations", ANNOTATION]);
            let detail =
                format!("{must} with either a URL or a reason starting with \"unapproved\", {DISCUSSION}");
            errors.push(FieldError::invalid(&path, found, detail));
        }
        Approval::Approved | Approval::Bypassed => {}
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
