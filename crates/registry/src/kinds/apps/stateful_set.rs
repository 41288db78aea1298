//! StatefulSet: pods with stable names, order and volumes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::checks::{self, count, default_text, ensure};
use super::{claim_template, int_or_percent, pod_controller};
use crate::kind::{Column, Declaration, Generation, Kind, NameRule, Scope, Subresource, texts};
use crate::kinds::core::{persistent_volume_claim, pod_spec};
use crate::kinds::ratchet;
use crate::kinds::rules::{self, same};
use crate::{internal_types, view};

/// Fields of the spec that an update may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// [`Kind`] of StatefulSet objects.
pub struct StatefulSet;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["sts"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::scale(), Subresource::status("StatefulSet")],
    names: NameRule::DnsLabel,
    generation: Generation::Spec,
    columns: columns(),
    storage_version_hash: "H+vl74LkKdo=".into(),
    ..Declaration::new("apps", &["v1"], "StatefulSet", "statefulsets", "statefulset", Scope::Namespaced)
});

fn columns() -> Vec<Column> {
    let mut columns =
        vec![Column::name(), Column::text("Ready", "how many of the wanted pods are ready"), Column::age()];
    columns.extend(pod_controller::container_columns());
    columns
}

impl Kind for StatefulSet {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = ensure(object, "spec");
        default_text(spec, "podManagementPolicy", "OrderedReady");
        set_strategy_defaults(ensure(spec, "updateStrategy"));
        let retention = ensure(spec, "persistentVolumeClaimRetentionPolicy");
        default_text(retention, "whenDeleted", "Retain");
        default_text(retention, "whenScaled", "Retain");
        view::set_default(spec, "replicas", || 1.into());
        // kube-apiserver always writes it.
        view::set_default(spec, "serviceName", || "".into());
        view::set_default(spec, "revisionHistoryLimit", || 10.into());
        claim_template::set_defaults(spec);
        pod_controller::set_template_defaults(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        drop_max_unavailable(object);
        checks::set(object, "status", json!({"availableReplicas": 0, "replicas": 0}));
        pod_controller::drop_disabled_fields(object.get_mut("spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        let used = view::at(old, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
        if used.is_none() {
            drop_max_unavailable(new);
        }
        pod_controller::drop_disabled_fields(new.get_mut("spec"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate_spec(object, true, errors);
    }

    fn revalidate(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        validate_spec(new, false, &mut found);
        found.forgive(new, old, |old, errors| validate_spec(old, false, errors));
        errors.extend(found);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let [mut new, mut old] = [new, old].map(|object| object["spec"].clone());
        for spec in [&mut new, &mut old] {
            if let Value::Object(fields) = spec {
                fields.retain(|name, _| !MUTABLE.contains(&name.as_str()));
            }
        }
        if !same(Some(&new), Some(&old)) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                          'template', 'updateStrategy', 'revisionHistoryLimit', \
                          'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.push(FieldError::forbidden(&Path::root("spec"), detail));
        }
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate_status(new.get("status").unwrap_or(&Value::Null), errors);
        checks::not_decremented(new, old, "collisionCount", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_controller::template_warnings(new, old);
        let list = Path::root("spec.volumeClaimTemplates");
        for (index, claim) in view::items(new, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
            let path = list.index(index);
            // kube-apiserver's paths, neither of which is a valid one.
            let path = if old.is_some() { path.child("Spec") } else { path };
            warnings.extend(persistent_volume_claim::fraction_warnings(claim, &path));
        }
        if view::integer(new, &["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
            let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; \
                           a value >= 0 is recommended";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let [names, images] = pod_controller::container_cells(pod_controller::template(spec));
        let ready = format!("{}/{}", count(status, "readyReplicas"), count(spec, "replicas"));
        vec![view::name(object).into(), ready.into(), view::age(object, now), names, images]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        vec![
            crate::samples::Stored::of(valid, &json!({"spec": {"serviceName": "not.a.label"}})),
            crate::samples::Stored::of(
                valid,
                &json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "a"}}]}}),
            ),
            crate::samples::Stored::of(
                valid,
                &json!({"spec": {"template": {"spec": {"dnsPolicy": "Mine"}}}}),
            )
            .refusing(json!({"spec": {"replicas": -1}}), "spec.replicas", "FieldValueInvalid"),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        let claim =
            json!({"metadata": {"name": "a"}, "spec": {"resources": {"requests": {"storage": "1500m"}}}});
        let object = sample(json!({"volumeClaimTemplates": [claim]}));
        vec![
            crate::samples::Warned::created(
                object.clone(),
                &[
                    "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
            crate::samples::Warned::updated(
                object.clone(),
                object,
                &[
                    "spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
        ]
    }
}

/// Validates a spec; immutable fields only when it is new.
fn validate_spec(object: &Value, is_new: bool, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_policies(spec, &path, errors);
    if is_new {
        claim_template::validate(spec, &path, errors);
    }
    checks::all_non_negative(spec, &["replicas", "minReadySeconds"], &path, errors);
    if let Some(ordinals) = spec.get("ordinals") {
        checks::non_negative(ordinals, "start", &path.child("ordinals"), errors);
    }
    let service = view::text(spec, &["serviceName"]);
    if is_new && !service.is_empty() {
        rules::each_message(&path.child("serviceName"), service, name::dns1123_label(service), errors);
    }
    validate_template(spec, &path, errors);
}

fn set_strategy_defaults(strategy: &mut Value) {
    if view::text(strategy, &["type"]).is_empty() {
        default_text(strategy, "type", "RollingUpdate");
        ensure(strategy, "rollingUpdate");
    }
    if view::text(strategy, &["type"]) == "RollingUpdate"
        && let Some(rolling_update) = strategy.get_mut("rollingUpdate")
    {
        view::set_default(rolling_update, "partition", || 0.into());
    }
}

/// Drops a field whose feature gate is off by default.
fn drop_max_unavailable(object: &mut Value) {
    let rolling_update = object.pointer_mut("/spec/updateStrategy/rollingUpdate");
    if let Some(Value::Object(fields)) = rolling_update {
        fields.remove("maxUnavailable");
    }
}

fn validate_policies(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let management = view::text(spec, &["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&management) {
        let path = path.child("podManagementPolicy");
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(&path, BadValue::named(management), detail));
    }
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    validate_strategy(strategy, &path.child("updateStrategy"), errors);
    if let Some(retention) = spec.get("persistentVolumeClaimRetentionPolicy") {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let policy = view::text(retention, &[field]);
            rules::one_of(&path.child(field), policy, &["Retain", "Delete"], errors);
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling_update = strategy.get("rollingUpdate");
    let update_path = path.child("rollingUpdate");
    match (view::text(strategy, &["type"]), rolling_update) {
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(update)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(
                &update_path,
                internal_types::printed("*@apps.RollingUpdateStatefulSetStrategy", Some(update)),
                detail,
            ));
        }
        ("RollingUpdate", Some(update)) => validate_rolling_update(update, &update_path, errors),
        _ => {
            let found = internal_types::printed("@apps.StatefulSetUpdateStrategy", Some(strategy));
            errors.push(FieldError::invalid(path, found, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn validate_rolling_update(update: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::non_negative(update, "partition", path, errors);
    let Some(unavailable) = update.get("maxUnavailable") else { return };
    let path = path.child("maxUnavailable");
    int_or_percent::validate(unavailable, &path, errors);
    if int_or_percent::number(unavailable) == 0 {
        errors.push(FieldError::invalid(&path, BadValue::json(unavailable), "cannot be 0"));
    }
    int_or_percent::validate_at_most_100_percent(unavailable, &path, errors);
}

fn validate_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let template_path = path.child("template");
    if pod_controller::validate_required_selector(spec, "statefulset", path, errors) {
        pod_controller::validate_selector_fits(spec, path, errors);
        errors.ratcheted(ratchet::STATEFUL_SET_TEMPLATE, |errors| {
            pod_spec::validate_template(&template_as_used(spec), &template_path, errors);
        });
        validate_template_metadata(pod_controller::template(spec), &template_path, errors);
    } else {
        let found = internal_types::printed("*@meta.LabelSelector", spec.get("selector"));
        errors.push(FieldError::invalid(&path.child("selector"), found, ""));
    }
    let template = pod_controller::template(spec);
    pod_controller::validate_runs_forever(template, "StatefulSet", &template_path, errors);
}

/// The second validation of labels and annotations, which kube-apiserver reports with other paths.
fn validate_template_metadata(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let nothing = Value::Null;
    let metadata = template.get("metadata").unwrap_or(&nothing);
    let pod = template.get("spec").unwrap_or(&nothing);
    pod_spec::check::labels(metadata.get("labels"), &path.child("labels"), errors);
    let annotations = path.child("annotations");
    pod_spec::annotation::validate_keys(metadata, &annotations, errors);
    pod_spec::annotation::validate(metadata, pod, &annotations, errors);
}

/// The template in the form in which pods are created: the controller sets host names, and volumes for claims.
fn template_as_used(spec: &Value) -> Value {
    let mut template = pod_controller::template(spec).clone();
    // kube-apiserver keeps one volume for claims with the same name.
    let claims: BTreeSet<_> = view::items(spec, &["volumeClaimTemplates"]).iter().map(view::name).collect();
    let Some(Value::Object(pod)) = template.get_mut("spec") else { return template };
    pod.remove("hostname");
    pod.remove("subdomain");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<_> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(Value::Array(others)) = pod.remove("volumes") {
        volumes.extend(others.into_iter().filter(|volume| !claims.contains(&view::text(volume, &["name"]))));
    }
    pod.insert("volumes".to_owned(), volumes.into());
    template
}

fn validate_status(status: &Value, errors: &mut ErrorList) {
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    checks::all_non_negative(status, &counts, &Path::root("status"), errors);
    for field in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        checks::at_most(status, field, "replicas", "cannot be greater than status.replicas", errors);
    }
    let detail = "cannot be greater than status.readyReplicas";
    checks::at_most(status, "availableReplicas", "readyReplicas", detail, errors);
}

#[cfg(any(test, feature = "samples"))]
fn sample(extra: Value) -> Value {
    pod_controller::sample("apps/v1", "StatefulSet", extra)
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let strategy = |strategy: Value| sample(json!({"updateStrategy": strategy}));
    let refused = |extra: Value, field, reason| Refused::new(sample(extra), field, reason);
    Samples {
        valid: vec![
            sample(json!({
                "serviceName": "web",
                "replicas": 3,
                "ordinals": {"start": 1},
                "podManagementPolicy": "Parallel",
                "volumeClaimTemplates": [claim_template::sample()],
            })),
            strategy(json!({"type": "OnDelete"})),
            strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})),
        ],
        invalid: vec![
            refused(json!({"replicas": -1}), "spec.replicas", "FieldValueInvalid"),
            refused(json!({"ordinals": {"start": -1}}), "spec.ordinals.start", "FieldValueInvalid"),
            refused(json!({"serviceName": "a.b"}), "spec.serviceName", "FieldValueInvalid"),
            refused(json!({"podManagementPolicy": "x"}), "spec.podManagementPolicy", "FieldValueInvalid"),
            refused(json!({"updateStrategy": {"type": "x"}}), "spec.updateStrategy", "FieldValueInvalid"),
            refused(
                json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}),
                "spec.updateStrategy.rollingUpdate",
                "FieldValueInvalid",
            ),
            refused(
                json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}}),
                "spec.updateStrategy.rollingUpdate.partition",
                "FieldValueInvalid",
            ),
            refused(
                json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}),
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
                "FieldValueNotSupported",
            ),
            refused(
                json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}),
                "spec.volumeClaimTemplates[0].spec.accessModes",
                "FieldValueRequired",
            ),
            refused(json!({"selector": {}}), "spec.selector", "FieldValueInvalid"),
        ],
        updates: vec![json!({"spec": {"replicas": 0, "minReadySeconds": 4, "ordinals": null}})],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"serviceName": "other"}}), "spec", "FieldValueForbidden"),
            Refused::new(json!({"spec": {"volumeClaimTemplates": null}}), "spec", "FieldValueForbidden"),
            Refused::new(
                json!({"spec": {"podManagementPolicy": "OrderedReady"}}),
                "spec",
                "FieldValueForbidden",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_strategy_gets_no_default_partition() {
        let defaults = |mut strategy: Value| {
            set_strategy_defaults(&mut strategy);
            strategy
        };
        let full = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        assert_eq!(defaults(json!({})), full);
        assert_eq!(defaults(json!({"type": "RollingUpdate"})), json!({"type": "RollingUpdate"}));
        assert_eq!(defaults(json!({"type": "OnDelete"})), json!({"type": "OnDelete"}));
    }

    #[test]
    fn claim_templates_are_volumes_in_validation() {
        let mut object = sample(json!({"volumeClaimTemplates": [claim_template::sample()]}));
        object["spec"]["template"]["spec"]["volumes"] =
            json!([{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]);
        let template = template_as_used(&object["spec"]);
        assert_eq!(
            template["spec"]["volumes"],
            json!([
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "other", "emptyDir": {}},
            ])
        );
    }

    #[test]
    fn field_of_disabled_feature_is_dropped() {
        let mut object = sample(json!({
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}},
        }));
        StatefulSet.prepare_for_create(&mut object, Time(0));
        assert_eq!(object["spec"]["updateStrategy"]["rollingUpdate"], json!({"partition": 0}));
    }
}
