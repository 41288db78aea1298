//! Job: runs pods until enough of them have succeeded.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::object::Meta;
use coracle_meta::table::human_duration;
use coracle_meta::time::Time;
use serde_json::{Map, Value};

use super::{job_spec, job_status, template_update};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, Subresource, texts};
use crate::kinds::apps::checks::{self, count, ensure};
use crate::kinds::apps::pod_controller;
use crate::kinds::core::label_selector;
use crate::kinds::rules::{self, check_again, same};
use crate::{internal_types, view};

/// Labels of a Job's pods: the legacy name and the one with a prefix.
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// [`Kind`] of Job objects.
pub struct Job;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    categories: texts(&["all"]),
    subresources: vec![Subresource::status("Job")],
    generation: Generation::Spec,
    orphans_by_default: true,
    selectable_fields: texts(&["status.successful"]),
    columns: columns(),
    storage_version_hash: "mudhfqk/qZY=".into(),
    ..Declaration::new("batch", &["v1"], "Job", "jobs", "job", Scope::Namespaced)
});

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::name(),
        Column::text("Status", "whether it runs, or how it ended"),
        Column::text("Completions", "how many of the wanted pods have succeeded"),
        Column::text("Duration", "how long it ran, or has run so far"),
        Column::age(),
    ];
    columns.extend(pod_controller::container_columns());
    columns.push(pod_controller::selector_column());
    columns
}

impl Kind for Job {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        set_spec_defaults(ensure(object, "spec"));
        set_default_labels(object);
    }

    /// Removes the labels that defaulting copied from the template, so that the copy is made again after the selector
    /// has been generated. Labels that admission changed stay.
    fn prepare_unlabelled(&self, object: &mut Value) {
        let of_template =
            object.pointer("/metadata/labels") == object.pointer("/spec/template/metadata/labels");
        if let (true, Some(Value::Object(metadata))) = (of_template, object.get_mut("metadata")) {
            metadata.remove("labels");
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        if !view::is_true(object, &["spec", "manualSelector"]) {
            generate_selector(object);
        }
        set_default_labels(object);
        checks::set(object, "status", Value::Object(Map::new()));
        pod_controller::drop_disabled_fields(object.get_mut("spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        set_default_labels(new);
        pod_controller::drop_disabled_fields(new.get_mut("spec"));
    }

    fn deletion_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate_generated_selector(object, errors);
        validate_spec(object, errors);
        validate_host_names(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
        check_again(new, old, errors, validate_spec);
        validate_completions(new_spec, old_spec, &path, errors);
        pod_controller::validate_selector_stays(new, old, errors);
        template_update::validate(new_spec, old, &path, errors);
        let fields = [
            ("completionMode", "*s"),
            ("podFailurePolicy", "*@batch.PodFailurePolicy"),
            ("backoffLimitPerIndex", "*i"),
            ("managedBy", "*s"),
            ("successPolicy", "*@batch.SuccessPolicy"),
        ];
        for (field, shape) in fields {
            rules::unchanged(shape, &path.child(field), new_spec.get(field), old_spec.get(field), errors);
        }
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        job_status::validate_update(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_controller::name_warnings(new, old);
        if old.is_none_or(|old| !same(new.get("spec"), old.get("spec"))) {
            warnings.extend(job_spec::warnings(&new["spec"], &Path::root("spec")));
        }
        warnings
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        pod_controller::number_field(object, &["status", "succeeded"])
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let [names, images] = pod_controller::container_cells(pod_controller::template(spec));
        vec![
            view::name(object).into(),
            state(object).into(),
            completions(object).into(),
            duration(object, now).into(),
            view::age(object, now),
            names,
            images,
            pod_controller::selector_cell(spec),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        super::job_samples::samples()
    }
}

fn validate_spec(job: &Value, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let spec = job.get("spec").unwrap_or(&Value::Null);
    job_spec::validate(spec, &path, errors);
    let selector = pod_controller::selector(spec);
    if selector.is_null() {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    if pod_controller::validate_selector(selector, &path.child("selector"), errors) {
        pod_controller::validate_selector_fits(spec, &path, errors);
    }
}

fn set_spec_defaults(spec: &mut Value) {
    if spec.get("parallelism").is_none() {
        view::set_default(spec, "completions", || 1.into());
        view::set_default(spec, "parallelism", || 1.into());
    }
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    view::set_default(spec, "backoffLimit", || if per_index { i32::MAX.into() } else { 6.into() });
    view::set_default(spec, "completionMode", || "NonIndexed".into());
    view::set_default(spec, "suspend", || false.into());
    let replacement = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    view::set_default(spec, "podReplacementPolicy", || replacement.into());
    view::set_default(spec, "manualSelector", || false.into());
    job_spec::set_template_defaults(spec);
}

/// Generates pod labels with the Job's name and UID, and a selector by UID. Values that the client set stay, and are
/// rejected if they differ.
fn generate_selector(object: &mut Value) {
    let meta = Meta::of(object);
    let (name, uid) = (meta.name().to_owned(), meta.uid().to_owned());
    let spec = ensure(object, "spec");
    let labels = ensure(ensure(ensure(spec, "template"), "metadata"), "labels");
    for label in NAME_LABELS {
        view::set_default(labels, label, || name.as_str().into());
    }
    for label in UID_LABELS {
        view::set_default(labels, label, || uid.as_str().into());
    }
    let match_labels = ensure(ensure(spec, "selector"), "matchLabels");
    view::set_default(match_labels, UID_LABELS[1], || uid.as_str().into());
}

/// A Job without labels gets those of its pods. kube-apiserver sets this default whenever it decodes a Job, so that
/// the generated labels are included.
fn set_default_labels(object: &mut Value) {
    if view::fields(object, &["metadata", "labels"]).next().is_some() {
        return;
    }
    if let Some(labels) = view::at(object, &["spec", "template", "metadata", "labels"]).cloned() {
        checks::set(ensure(object, "metadata"), "labels", labels);
    }
}

fn validate_generated_selector(object: &Value, errors: &mut ErrorList) {
    let selector = pod_controller::selector(&object["spec"]);
    if view::is_true(object, &["spec", "manualSelector"]) || selector.is_null() {
        return;
    }
    let meta = Meta::of(object);
    if meta.uid().is_empty() {
        errors.push(FieldError::required(&Path::root("metadata.uid"), ""));
    }
    let [old_uid, uid] = UID_LABELS;
    let [old_name, name] = NAME_LABELS;
    let expected = [(old_uid, meta.uid()), (old_name, meta.name()), (uid, meta.uid()), (name, meta.name())];
    for (label, value) in expected {
        validate_has_label(object, label, value, errors);
    }
    let labels = expected.into_iter().map(|(label, value)| (label.to_owned(), value.into()));
    // An invalid selector is reported elsewhere.
    let mut unusable = ErrorList::new();
    label_selector::validate(selector, &Path::NIL, &mut unusable);
    if unusable.is_empty() && !label_selector::matches(selector, &Value::Object(labels.collect())) {
        let found = internal_types::printed("*@meta.LabelSelector", Some(selector));
        let detail = "`selector` not auto-generated";
        errors.push(FieldError::invalid(&Path::root("spec.selector"), found, detail));
    }
}

fn validate_has_label(object: &Value, label: &str, expected: &str, errors: &mut ErrorList) {
    let labels = view::at(object, &["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null);
    let path = Path::root("spec.template.metadata.labels");
    let detail = format!("must be '{expected}'");
    match labels.get(label) {
        None => errors.push(FieldError::required(&path.key(label), detail)),
        Some(found) if found != expected => {
            errors.push(FieldError::invalid(&path.key(label), labels, detail));
        }
        Some(_) => {}
    }
}

/// Pods of an indexed Job have its name and their index as host name.
fn validate_host_names(object: &Value, errors: &mut ErrorList) {
    let Some(completions) = view::integer(object, &["spec", "completions"]).filter(|count| *count > 0) else {
        return;
    };
    let job_name = view::name(object);
    let longest = format!("{job_name}-{}", completions - 1);
    if job_spec::is_indexed(&object["spec"]) && !name::dns1123_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(FieldError::invalid(&Path::root("metadata.name"), job_name, detail));
    }
}

/// Only an indexed Job whose parallelism equals completions may change its completions.
fn validate_completions(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !job_spec::is_indexed(new) {
        rules::unchanged(
            "*i",
            &path.child("completions"),
            new.get("completions"),
            old.get("completions"),
            errors,
        );
        return;
    }
    let completions = new.get("completions");
    if let Some(found) = completions
        && completions != old.get("completions")
        && completions != new.get("parallelism")
    {
        let detail = format!("can only be modified in tandem with {path}.parallelism");
        errors.push(FieldError::invalid(&path.child("completions"), BadValue::json(found), detail));
    }
}

fn state(object: &Value) -> &'static str {
    let status = object.get("status").unwrap_or(&Value::Null);
    let has = |condition: &&str| job_status::has_condition(status, condition);
    if let Some(end) = ["Complete", "Failed"].into_iter().find(has) {
        end
    } else if Meta::of(object).is_deleting() {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(has).unwrap_or("Running")
    }
}

fn completions(object: &Value) -> String {
    let succeeded = view::integer(object, &["status", "succeeded"]).unwrap_or(0);
    let parallelism = count(&object["spec"], "parallelism");
    match view::integer(object, &["spec", "completions"]) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, now: i64) -> String {
    let seconds = |field| view::text(object, &["status", field]).parse::<Time>().ok().map(|time| time.0);
    seconds("startTime")
        .map_or_else(String::new, |start| human_duration(seconds("completionTime").unwrap_or(now) - start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::job_samples::sample;
    use super::*;

    #[test]
    fn defaults_depend_on_other_fields() {
        let defaults = |mut spec: Value| {
            set_spec_defaults(&mut spec);
            spec
        };
        let spec = defaults(json!({}));
        assert_eq!((&spec["completions"], &spec["parallelism"]), (&json!(1), &json!(1)));
        assert_eq!(
            (&spec["backoffLimit"], &spec["podReplacementPolicy"]),
            (&json!(6), &json!("TerminatingOrFailed"))
        );
        let spec = defaults(json!({"parallelism": 2, "backoffLimitPerIndex": 1, "podFailurePolicy": {}}));
        assert_eq!(spec.get("completions"), None);
        assert_eq!(
            (&spec["backoffLimit"], &spec["podReplacementPolicy"]),
            (&json!(i32::MAX), &json!("Failed"))
        );
        assert_eq!(defaults(json!({"completions": 3}))["parallelism"], 1);
    }

    #[test]
    fn selector_is_generated() {
        let mut job = sample(json!({}));
        Job.set_defaults(&mut job);
        Job.prepare_unlabelled(&mut job);
        Job.prepare_for_create(&mut job, Time(0));
        let uid = &job["metadata"]["uid"];
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {UID_LABELS[1]: uid}}));
        let expected = json!({
            "app": "pi",
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "sample",
            "controller-uid": uid,
            "job-name": "sample",
        });
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], expected);
        assert_eq!(job["metadata"]["labels"], expected);
    }

    #[test]
    fn table_shows_status_and_completions() {
        let mut job = sample(json!({"completions": 4}));
        job["status"] = json!({
            "succeeded": 2,
            "startTime": "2023-11-14T22:13:00Z",
            "conditions": [{"type": "Suspended", "status": "True"}],
        });
        let cells = Job.cells(&job, 1_700_000_000);
        assert_eq!(cells[1..4], [json!("Suspended"), json!("2/4"), json!("20s")]);
        job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        job["status"]["completionTime"] = json!("2023-11-14T22:13:05Z");
        let cells = Job.cells(&job, 1_700_000_000);
        assert_eq!(cells[1..4], [json!("Complete"), json!("2/4"), json!("5s")]);
        assert_eq!(Job.selectable_value(&job, "status.successful"), "2");
    }
}
