//! APIService: the server of an API group and version.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, quoted};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use crate::kind::{Column, Declaration, Kind, NameRule, Scope, StatusMetadata, Subresource, texts};
use crate::kinds::rules;
use crate::view;

/// Default port of a service reference.
const DEFAULT_PORT: i64 = 443;

/// Maximum `groupPriorityMinimum`, as in kube-aggregator.
const MAX_GROUP_PRIORITY: i64 = 20_000;

/// Maximum `versionPriority`, as in kube-aggregator.
const MAX_VERSION_PRIORITY: i64 = 1000;

/// [`Kind`] of ApiService objects.
pub struct ApiService;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    metadata_checks: 1,
    categories: texts(&["api-extensions"]),
    subresources: vec![Subresource::status("APIService")],
    status_metadata: StatusMetadata::Kept,
    names: NameRule::PathSegment,
    unconditional_update: false,
    columns: vec![
        Column::name(),
        Column::text("Service", "the service behind it, or that it is served here"),
        Column::text("Available", "whether it can be reached"),
        Column::age(),
    ],
    storage_version_hash: "InPBPD7+PqM=".into(),
    ..Declaration::new(
        "apiregistration.k8s.io",
        &["v1"],
        "APIService",
        "apiservices",
        "apiservice",
        Scope::Cluster,
    )
});

impl Kind for ApiService {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(service) = object.pointer_mut("/spec/service") {
            view::set_default(service, "port", || DEFAULT_PORT.into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, now: Time) {
        if view::at(object, &["spec", "service"]).is_none()
            && let Value::Object(fields) = object
        {
            let condition = json!({
                "type": "Available",
                "status": "True",
                "lastTransitionTime": now.to_string(),
                "reason": "Local",
                "message": "Local APIServices are always available",
            });
            fields.insert("status".to_owned(), json!({"conditions": [condition]}));
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_name(object, errors);
        check_group_version(object, errors);
        let path = Path::root("spec");
        for (field, max) in
            [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)]
        {
            let priority = view::integer(object, &["spec", field]).unwrap_or(0);
            if priority <= 0 || priority > max {
                let detail = format!("must be positive and less than {max}");
                errors.push(FieldError::invalid(&path.child(field), priority, detail));
            }
        }
        match view::at(object, &["spec", "service"]) {
            Some(service) => check_remote(object, service, &path, errors),
            None => check_local(object, &path, errors),
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("status.conditions");
        for (index, condition) in view::items(new, &["status", "conditions"]).iter().enumerate() {
            let status = view::text(condition, &["status"]);
            rules::one_of(&path.index(index).child("status"), status, &["True", "False", "Unknown"], errors);
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let service = view::at(object, &["spec", "service"]).map_or_else(
            || "Local".to_owned(),
            |service| format!("{}/{}", view::text(service, &["namespace"]), view::text(service, &["name"])),
        );
        vec![view::name(object).into(), service.into(), available(object).into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Table cell with availability and reason.
fn available(object: &Value) -> String {
    let conditions = view::items(object, &["status", "conditions"]);
    let condition = conditions.iter().find(|condition| view::text(condition, &["type"]) == "Available");
    let Some(condition) = condition else { return "Unknown".to_owned() };
    match (view::text(condition, &["status"]), view::text(condition, &["reason"])) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

/// Requires a name that matches version and group.
fn check_name(object: &Value, errors: &mut ErrorList) {
    let required =
        format!("{}.{}", view::text(object, &["spec", "version"]), view::text(object, &["spec", "group"]));
    // kube-apiserver applies the same rule to both, so a prefix is never valid.
    for field in ["generateName", "name"] {
        let name = view::text(object, &["metadata", field]);
        if !name.is_empty() && name::path_segment_name(name).is_empty() && name != required {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quoted(&required));
            errors.push(FieldError::invalid(&Path::root("metadata").child(field), name, detail));
        }
    }
}

fn check_group_version(object: &Value, errors: &mut ErrorList) {
    let (group, version) = (view::text(object, &["spec", "group"]), view::text(object, &["spec", "version"]));
    let group_path = Path::root("spec.group");
    if !group.is_empty() {
        rules::each_message(&group_path, group, name::dns1123_subdomain(group), errors);
    } else if version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&group_path, detail));
    }
    rules::each_message(&Path::root("spec.version"), version, name::dns1035_label(version), errors);
}

fn check_local(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let bundle = view::text(object, &["spec", "caBundle"]);
    if !bundle.is_empty() {
        let bytes = bundle.trim_end_matches('=').len() * 3 / 4;
        let detail = "local APIServices may not have a caBundle";
        errors.push(FieldError::invalid(&path.child("caBundle"), format!("{bytes} bytes"), detail));
    }
    if view::is_true(object, &["spec", "insecureSkipTLSVerify"]) {
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}

fn check_remote(object: &Value, service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let service_path = path.child("service");
    for field in ["namespace", "name"] {
        rules::required(&service_path.child(field), view::text(service, &[field]), errors);
    }
    let port = view::integer(service, &["port"]).unwrap_or(0);
    let messages = name::port_number(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.push(FieldError::invalid(&service_path.child("port"), BadValue::from(port), detail));
    }
    if view::is_true(object, &["spec", "insecureSkipTLSVerify"])
        && !view::text(object, &["spec", "caBundle"]).is_empty()
    {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let service = |spec: Value| cluster("apiregistration.k8s.io/v1", "APIService", json!({"spec": spec}));
    let valid = service(json!({
        "group": "metrics.example.com",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": "AAEC",
        "service": {"namespace": "system", "name": "metrics"},
    }));
    let valid = with(&valid, "/metadata/name", json!("v1beta1.metrics.example.com"));
    let local = service(json!({"version": "v1", "groupPriorityMinimum": 18_000, "versionPriority": 1}));
    let local = with(&local, "/metadata/name", json!("v1."));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/metadata/name", json!("other"), "metadata.name", "FieldValueInvalid"),
            refused("/spec/group", json!(""), "spec.group", "FieldValueRequired"),
            refused("/spec/group", json!("A"), "spec.group", "FieldValueInvalid"),
            refused("/spec/version", json!("1"), "spec.version", "FieldValueInvalid"),
            refused(
                "/spec/groupPriorityMinimum",
                json!(20_001),
                "spec.groupPriorityMinimum",
                "FieldValueInvalid",
            ),
            refused("/spec/versionPriority", Value::Null, "spec.versionPriority", "FieldValueInvalid"),
            refused("/spec/service/name", json!(""), "spec.service.name", "FieldValueRequired"),
            refused("/spec/service/port", json!(70_000), "spec.service.port", "FieldValueInvalid"),
            refused(
                "/spec/insecureSkipTLSVerify",
                json!(true),
                "spec.insecureSkipTLSVerify",
                "FieldValueInvalid",
            ),
            refused("/spec/service", Value::Null, "spec.caBundle", "FieldValueInvalid"),
            Refused::new(
                with(&local, "/spec/insecureSkipTLSVerify", json!(true)),
                "spec.insecureSkipTLSVerify",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid, local],
        updates: vec![json!({"spec": {"versionPriority": 10}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"group": "other"}}),
            "metadata.name",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_api_service_is_available() {
        let mut local = json!({"spec": {"version": "v1"}});
        ApiService.prepare_for_create(&mut local, Time(0));
        assert_eq!(ApiService.cells(&local, 0)[1..3], ["Local", "True"]);
        let condition = json!({"type": "Available", "status": "False", "reason": "MissingEndpoints"});
        let broken = json!({"status": {"conditions": [condition]}});
        assert_eq!(ApiService.cells(&broken, 0)[2], "False (MissingEndpoints)");
    }
}
