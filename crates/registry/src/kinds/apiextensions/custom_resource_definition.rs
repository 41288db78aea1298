//! CustomResourceDefinition: defines a custom kind.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::object::{Meta, MetaMut};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::options::{REVIEW_VERSIONS, ValidationOptions};
use super::versions::Versions;
use super::{approval, ca_bundle, names, warnings};
use crate::kind::{Declaration, DeletionRule, Generation, Kind, Scope, Subresource, texts};
use crate::kinds::admissionregistration::check_review_versions;
use crate::kinds::{rules, webhook_client};
use crate::view;

/// Finalizer that keeps a terminating definition until its objects are deleted.
const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// [`Kind`] of CustomResourceDefinition objects.
pub struct CustomResourceDefinition;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    deletion: DeletionRule::Definition,
    short_names: texts(&["crd", "crds"]),
    categories: texts(&["api-extensions"]),
    subresources: vec![Subresource::status("CustomResourceDefinition")],
    generation: Generation::Spec,
    unconditional_update: false,
    columns: rules::plain_columns(),
    storage_version_hash: "jfWCUB31mvA=".into(),
    ..Declaration::new(
        "apiextensions.k8s.io",
        &["v1"],
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
        Scope::Cluster,
    )
});

impl Kind for CustomResourceDefinition {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        set_spec_defaults(object);
        if view::items(object, &["status", "storedVersions"]).is_empty() {
            remember_storage_version(object);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        if let Value::Object(fields) = object {
            let unnamed = json!({"acceptedNames": {"plural": "", "kind": ""}, "conditions": null});
            fields.insert("status".to_owned(), unnamed);
        }
        remember_storage_version(object);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        remember_storage_version(new);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_name(object, errors);
        check(object, None, ValidationOptions::new(), errors);
    }

    fn revalidate(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, Some(old), ValidationOptions::after(old, is_established(old)), errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_accepted_names(new, errors);
    }

    /// The objects of the kind are deleted first, so a definition is never removed by the first request.
    fn is_held(&self, object: &Value) -> bool {
        !Meta::of(object).is_deleting()
    }

    fn begin_deletion(&self, object: &mut Value) {
        let deletion_time = Meta::of(object).deletion_timestamp();
        if let Some(mut meta) = MetaMut::of(object) {
            meta.add_finalizer(CLEANUP_FINALIZER);
        }
        set_terminating(object, deletion_time);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of(new, old)
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Sets the condition `Terminating`.
fn set_terminating(object: &mut Value, since: Option<Time>) {
    let Value::Object(fields) = object else { return };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let mut conditions = view::items(status, &["conditions"]).to_vec();
    let going = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": since.map(|since| since.to_string()),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    conditions.retain(|condition| view::text(condition, &["type"]) != "Terminating");
    conditions.push(going);
    status["conditions"] = conditions.into();
}

fn set_spec_defaults(object: &mut Value) {
    let kind = view::text(object, &["spec", "names", "kind"]).to_owned();
    if let Some(names) = object.pointer_mut("/spec/names").filter(|_| !kind.is_empty()) {
        for (field, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if view::text(names, &[field]).is_empty() {
                names[field] = default.into();
            }
        }
    }
    if let Some(spec) = object.get_mut("spec") {
        view::set_default(spec, "conversion", || json!({"strategy": "None"}));
    }
    if let Some(config) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
        webhook_client::set_defaults(config);
    }
}

/// Adds the storage version to `storedVersions`, which must be served until no object is stored in it.
fn remember_storage_version(object: &mut Value) {
    let versions = view::items(object, &["spec", "versions"]);
    let Some(stored) = versions.iter().find(|version| view::is_true(version, &["storage"])) else { return };
    let stored = Value::from(view::text(stored, &["name"]));
    view::set_default(object, "status", || json!({}));
    let Some(status) = object.get_mut("status") else { return };
    view::set_default(status, "storedVersions", || json!([]));
    if let Some(all) = status.get_mut("storedVersions").and_then(Value::as_array_mut)
        && !all.contains(&stored)
    {
        all.push(stored);
    }
}

/// Whether the names are accepted, so that objects may exist.
fn is_established(object: &Value) -> bool {
    view::items(object, &["status", "conditions"]).iter().any(|condition| {
        view::text(condition, &["type"]) == "Established" && view::text(condition, &["status"]) == "True"
    })
}

fn check_name(object: &Value, errors: &mut ErrorList) {
    let plural = view::text(object, &["spec", "names", "plural"]);
    let group = view::text(object, &["spec", "group"]);
    let expected = format!("{plural}.{group}");
    for field in ["generateName", "name"] {
        let found = view::text(object, &["metadata", field]);
        if !found.is_empty() && found != expected {
            let (metadata, detail) = (Path::root("metadata"), "must be spec.names.plural+\".\"+spec.group");
            errors.push(FieldError::invalid(&metadata.child(field), found, detail));
        }
    }
}

fn check(new: &Value, old: Option<&Value>, options: ValidationOptions<'_>, errors: &mut ErrorList) {
    check_spec(new, &options.of(new), &Path::root("spec"), errors);
    if let Some(old) = old {
        check_fixed(new, old, errors);
    }
    check_accepted_names(new, errors);
    check_stored_versions(new, errors);
    approval::check(new, old, errors);
    let preserving = |object: &Value| view::is_true(object, &["spec", "preserveUnknownFields"]);
    if preserving(new) && !old.is_some_and(preserving) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&Path::root("spec.preserveUnknownFields"), true, detail));
    }
}

/// Checks the fields that an update may not change, some of them only once the names are accepted.
fn check_fixed(new: &Value, old: &Value, errors: &mut ErrorList) {
    let mut fixed = vec![
        ("spec.group", vec!["spec", "group"], "s"),
        ("spec.names.plural", vec!["spec", "names", "plural"], "s"),
    ];
    if is_established(old) {
        let stored = [
            ("spec.scope", vec!["spec", "scope"], "S"),
            ("spec.names.kind", vec!["spec", "names", "kind"], "s"),
        ];
        fixed.splice(0..0, stored);
    }
    for (path, field, shape) in fixed {
        rules::unchanged(shape, &Path::root(path), view::at(new, &field), view::at(old, &field), errors);
    }
}

fn check_spec(object: &Value, options: &ValidationOptions<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    check_group(view::text(object, &["spec", "group"]), &path.child("group"), errors);
    let (scope, scope_path) = (view::text(object, &["spec", "scope"]), path.child("scope"));
    if rules::required(&scope_path, scope, errors) {
        rules::one_of(&scope_path, scope, &["Cluster", "Namespaced"], errors);
    }
    let versions = Versions::of(object, options);
    versions.check(path, errors);
    let none = json!({});
    let kind_names = view::at(object, &["spec", "names"]).unwrap_or(&none);
    names::check_required(kind_names, &path.child("names"), errors);
    names::check(kind_names, &path.child("names"), errors);
    versions.check_shared(path, errors);
    if let Some(conversion) = view::at(object, &["spec", "conversion"]) {
        let path = path.child("conversion");
        let strategy = view::text(conversion, &["strategy"]);
        if strategy != "None" && view::is_true(object, &["spec", "preserveUnknownFields"]) {
            let detail = "must be None if spec.preserveUnknownFields is true";
            let found = BadValue::json(&strategy.into());
            errors.push(FieldError::invalid(&path.child("strategy"), found, detail));
        }
        check_conversion(conversion, options, &path, errors);
    }
}

fn check_group(group: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, group, errors) {
        return;
    }
    let messages = name::dns1123_subdomain(group);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, group, messages.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(path, group, "should be a domain with at least one dot"));
    }
}

/// Validates the conversion strategy. Paths are those of an older version of the API, as in kube-apiserver.
fn check_conversion(
    conversion: &Value,
    options: &ValidationOptions<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let strategy = view::text(conversion, &["strategy"]);
    let strategy_path = path.child("strategy");
    if rules::required(&strategy_path, strategy, errors) {
        rules::one_of(&strategy_path, strategy, &["None", "Webhook"], errors);
    }
    let config = view::at(conversion, &["webhook", "clientConfig"]);
    let reviews = view::items(conversion, &["webhook", "conversionReviewVersions"]);
    let (config_path, reviews_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(&config_path, detail));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(&reviews_path, detail));
        }
        return;
    }
    match config {
        Some(config) => {
            webhook_client::check(config, &config_path, errors);
            if options.requires_ca_bundle {
                ca_bundle::check(config, &config_path, errors);
            }
        }
        None => {
            let detail = "required when strategy is set to Webhook";
            errors.push(FieldError::required(&config_path, detail));
        }
    }
    if reviews.is_empty() {
        errors.push(FieldError::required(&reviews_path, ""));
    } else {
        let known = options.requires_known_review.then_some(&REVIEW_VERSIONS[..]);
        check_review_versions(reviews, known, &reviews_path, errors);
    }
}

fn check_accepted_names(object: &Value, errors: &mut ErrorList) {
    if let Some(accepted) = view::at(object, &["status", "acceptedNames"]) {
        names::check(accepted, &Path::root("status.acceptedNames"), errors);
    }
}

/// Versions in which objects may be stored cannot be removed.
fn check_stored_versions(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.storedVersions");
    let stored = view::items(object, &["status", "storedVersions"]);
    // kube-apiserver prints an absent list as null.
    let found = || BadValue::json(view::at(object, &["status", "storedVersions"]).unwrap_or(&Value::Null));
    if stored.is_empty() {
        errors.push(FieldError::invalid(&path, found(), "must have at least one stored version"));
        return;
    }
    let versions = view::items(object, &["spec", "versions"]);
    let storage = |(_, version): &(usize, &Value)| view::is_true(version, &["storage"]);
    for (index, version) in versions.iter().enumerate().filter(storage) {
        let name = view::text(version, &["name"]);
        // kube-apiserver takes a stored version for the first version with its name only.
        let first = versions.iter().position(|first| view::text(first, &["name"]) == name);
        let is_first = first == Some(index);
        if !is_first || !stored.iter().any(|stored| stored == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&path, found(), detail));
        }
    }
    for (index, stored) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.iter().any(|version| view::text(version, &["name"]) == stored) {
            let detail = format!(
                "missing from spec.versions; {stored} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {stored} and \
                 removes {stored} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(index), stored, detail));
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "size": {"type": "string"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}});
    let version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": schema,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
        "selectableFields": [{"jsonPath": ".spec.size"}],
    });
    let valid = cluster(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        json!({"spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat", "shortNames": ["bt"], "categories": ["all"]},
            "versions": [version],
        }}),
    );
    let valid = with(&valid, "/metadata/name", json!("boats.example.com"));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let in_version = |pointer: &str, value, field, reason| {
        Refused::new(with(&valid, &format!("/spec/versions/0/{pointer}"), value), field, reason)
    };
    let second = with(&version, "/name", json!("v2"));
    let mut invalid = vec![
        refused("/metadata/name", json!("other"), "metadata.name", "FieldValueInvalid"),
        refused("/spec/group", json!("example"), "spec.group", "FieldValueInvalid"),
        refused(
            "/spec/group",
            json!("x.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]",
            "FieldValueRequired",
        ),
        refused("/spec/scope", json!("World"), "spec.scope", "FieldValueNotSupported"),
        refused("/spec/names/plural", json!(""), "spec.names.plural", "FieldValueRequired"),
        refused("/spec/names/kind", json!("A_b"), "spec.names.kind", "FieldValueInvalid"),
        refused("/spec/names/listKind", json!("Boat"), "spec.names.listKind", "FieldValueInvalid"),
        refused("/spec/names/shortNames", json!(["B"]), "spec.names.shortNames[0]", "FieldValueInvalid"),
        refused("/spec/versions", json!([version, second]), "spec.versions", "FieldValueInvalid"),
        refused("/spec/versions", json!([version, version]), "spec.versions", "FieldValueInvalid"),
        refused(
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields",
            "FieldValueInvalid",
        ),
        refused(
            "/spec/conversion",
            json!({"strategy": "Magic"}),
            "spec.conversion.strategy",
            "FieldValueNotSupported",
        ),
        refused(
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig",
            "FieldValueRequired",
        ),
    ];
    invalid.extend([
        in_version("name", json!("1"), "spec.versions[0].name", "FieldValueInvalid"),
        in_version("schema", Value::Null, "spec.versions[0].schema.openAPIV3Schema", "FieldValueRequired"),
        in_version(
            "deprecationWarning",
            json!("old"),
            "spec.versions[0].deprecationWarning",
            "FieldValueInvalid",
        ),
        in_version(
            "schema/openAPIV3Schema/type",
            Value::Null,
            "spec.validation.openAPIV3Schema.type",
            "FieldValueRequired",
        ),
        in_version(
            "schema/openAPIV3Schema/properties/spec/type",
            json!("thing"),
            "spec.validation.openAPIV3Schema.properties[spec].type",
            "FieldValueNotSupported",
        ),
        in_version(
            "schema/openAPIV3Schema/properties/spec/additionalProperties",
            json!({"type": "string"}),
            "spec.validation.openAPIV3Schema.properties[spec].additionalProperties",
            "FieldValueForbidden",
        ),
        in_version(
            "schema/openAPIV3Schema/properties/spec/properties/size",
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
            "spec.validation.openAPIV3Schema.properties[spec].properties[size].x-kubernetes-list-map-keys",
            "FieldValueRequired",
        ),
        in_version(
            "schema/openAPIV3Schema/properties/spec/x-kubernetes-validations",
            json!([{"rule": ""}]),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            "FieldValueRequired",
        ),
        in_version(
            "subresources/scale/specReplicasPath",
            json!(".status.replicas"),
            "spec.subresources.scale.specReplicasPath",
            "FieldValueInvalid",
        ),
        in_version(
            "additionalPrinterColumns/0/type",
            json!("x"),
            "spec.additionalPrinterColumns[0].type",
            "FieldValueInvalid",
        ),
        in_version(
            "selectableFields/0/jsonPath",
            json!(".spec"),
            "spec.selectableFields[0].jsonPath",
            "FieldValueInvalid",
        ),
    ]);
    Samples {
        invalid,
        valid: vec![valid],
        updates: vec![json!({"spec": {"names": {"shortNames": ["b"]}}})],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"group": "other.com"}}), "spec.group", "FieldValueInvalid"),
            Refused::new(
                json!({"spec": {"versions": [second]}}),
                "status.storedVersions[0]",
                "FieldValueInvalid",
            ),
        ],
    }
}
