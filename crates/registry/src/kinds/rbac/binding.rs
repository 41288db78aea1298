//! Shared parts of RoleBinding and ClusterRoleBinding, which grant a role to subjects.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::GROUP;
use crate::kind::{Column, Scope};
use crate::kinds::apps::checks::{default_text, ensure};
use crate::kinds::rules;
use crate::{internal_types, view};

/// Columns of a binding.
pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text("Role", "role that the binding grants"),
        Column::age(),
        Column::text("Users", "users that get the role").wide(),
        Column::text("Groups", "groups that get the role").wide(),
        Column::text("ServiceAccounts", "service accounts that get the role").wide(),
    ]
}

/// Cells of a binding for [`columns`].
pub(super) fn cells(binding: &Value, now: i64) -> Vec<Value> {
    let role = &["kind", "name"].map(|field| view::text(binding, &["roleRef", field]));
    vec![
        view::name(binding).into(),
        role.join("/").into(),
        view::age(binding, now),
        subjects(binding, "User").into(),
        subjects(binding, "Group").into(),
        subjects(binding, "ServiceAccount").into(),
    ]
}

/// Formats the subjects of a kind for a table cell.
fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = view::items(binding, &["subjects"]).iter();
    let names = subjects.filter(|subject| view::text(subject, &["kind"]) == kind).map(|subject| {
        let name = view::text(subject, &["name"]);
        match kind {
            "ServiceAccount" => format!("{}/{name}", view::text(subject, &["namespace"])),
            _ => name.to_owned(),
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Sets the default API groups of the role and of the subjects.
pub(super) fn set_defaults(binding: &mut Value) {
    default_text(ensure(binding, "roleRef"), "apiGroup", GROUP);
    let Some(Value::Array(subjects)) = binding.get_mut("subjects") else { return };
    for subject in subjects {
        if matches!(view::text(subject, &["kind"]), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

/// Validates a binding of this scope.
pub(super) fn validate(binding: &Value, scope: Scope, errors: &mut ErrorList) {
    let role = binding.get("roleRef").unwrap_or(&Value::Null);
    validate_role(role, scope, errors);
    let path = Path::root("subjects");
    for (index, subject) in view::items(binding, &["subjects"]).iter().enumerate() {
        validate_subject(subject, scope, &path.index(index), errors);
    }
}

fn validate_role(role: &Value, scope: Scope, errors: &mut ErrorList) {
    let path = Path::root("roleRef");
    validate_group(role, GROUP, &path, errors);
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    let kind = view::text(role, &["kind"]);
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, kinds));
    }
    let role_name = view::text(role, &["name"]);
    rules::required_name(&path.child("name"), role_name, name::path_segment_name, errors);
}

fn validate_subject(subject: &Value, scope: Scope, path: &Path<'_>, errors: &mut ErrorList) {
    let subject_name = view::text(subject, &["name"]);
    let name_path = path.child("name");
    let is_named = rules::required(&name_path, subject_name, errors);
    match view::text(subject, &["kind"]) {
        "ServiceAccount" => {
            if is_named {
                rules::each_message(&name_path, subject_name, name::dns1123_subdomain(subject_name), errors);
            }
            validate_group(subject, "", path, errors);
            if scope == Scope::Cluster && view::text(subject, &["namespace"]).is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => validate_group(subject, GROUP, path, errors),
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), other, &kinds));
        }
    }
}

fn validate_group(reference: &Value, wanted: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let group = view::text(reference, &["apiGroup"]);
    if group != wanted {
        errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[wanted]));
    }
}

/// Rejects a change of the role, because a user could grant more permissions than they have by it.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let [new, old] =
        [new, old].map(|binding| internal_types::printed("@rbac.RoleRef", binding.get("roleRef")));
    if new != old {
        errors.push(FieldError::invalid(&Path::root("roleRef"), new, "cannot change roleRef"));
    }
}

/// Samples of a binding, of which `empty` has metadata only.
#[cfg(any(test, feature = "samples"))]
pub(super) fn samples(empty: &Value, role_kind: &str) -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |role: Value, subjects: Value| {
        let mut binding = empty.clone();
        binding["roleRef"] = role;
        binding["subjects"] = subjects;
        binding
    };
    let role = json!({"kind": role_kind, "name": "view", "apiGroup": GROUP});
    let refused = |role: Value, subject: Value, field, reason| {
        Refused::new(with(role, json!([subject])), field, reason)
    };
    let user = json!({"kind": "User", "name": "jane"});
    Samples {
        valid: vec![
            with(
                role.clone(),
                json!([
                    {"kind": "User", "name": "jane"},
                    {"kind": "Group", "name": "system:masters", "apiGroup": GROUP},
                    {"kind": "ServiceAccount", "name": "default", "namespace": "default"},
                ]),
            ),
            with(json!({"kind": role_kind, "name": "view"}), json!([])),
        ],
        invalid: vec![
            refused(
                json!({"kind": "Pod", "name": "x"}),
                user.clone(),
                "roleRef.kind",
                "FieldValueNotSupported",
            ),
            refused(json!({"kind": role_kind}), user.clone(), "roleRef.name", "FieldValueRequired"),
            refused(
                json!({"kind": role_kind, "name": "a/b"}),
                user.clone(),
                "roleRef.name",
                "FieldValueInvalid",
            ),
            refused(
                json!({"kind": role_kind, "name": "a", "apiGroup": "x"}),
                user,
                "roleRef.apiGroup",
                "FieldValueNotSupported",
            ),
            refused(role.clone(), json!({"kind": "User"}), "subjects[0].name", "FieldValueRequired"),
            refused(
                role.clone(),
                json!({"kind": "Robot", "name": "x"}),
                "subjects[0].kind",
                "FieldValueNotSupported",
            ),
            refused(
                role.clone(),
                json!({"kind": "ServiceAccount", "name": "A", "namespace": "n"}),
                "subjects[0].name",
                "FieldValueInvalid",
            ),
            refused(
                role,
                json!({"kind": "User", "name": "x", "apiGroup": "y"}),
                "subjects[0].apiGroup",
                "FieldValueNotSupported",
            ),
        ],
        updates: vec![json!({"subjects": [{"kind": "User", "name": "joe"}]})],
        invalid_updates: vec![Refused::new(
            json!({"roleRef": {"name": "admin"}}),
            "roleRef",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_role_error_matches_kube_apiserver() {
        let binding = |name: &str| json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name}});
        let mut errors = ErrorList::new();
        validate_update(&binding("b"), &binding("a"), &mut errors);
        assert_eq!(
            errors.to_string(),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\
             \"Name\":\"b\"}: cannot change roleRef"
        );
    }

    #[test]
    fn table_row_groups_subjects_by_kind() {
        let binding = json!({
            "metadata": {"name": "b"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u1"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "User", "name": "u2"},
            ],
        });
        let cells = cells(&binding, 0);
        assert_eq!(cells[1], "Role/r");
        assert_eq!(cells[3..], [json!("u1, u2"), json!(""), json!("n/s")]);
    }
}
