//! CronJob: creates Jobs on a schedule.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Map, Value};

use super::{cron_schedule, job_spec, time_zone};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, Subresource, texts};
use crate::kinds::apps::checks::{self, default_text, ensure};
use crate::kinds::apps::pod_controller;
use crate::kinds::ratchet;
use crate::kinds::rules::{self, same};
use crate::{internal_types, view};

/// The controller appends eleven characters to the name for Jobs, whose names have at most 63.
const MAX_NAME_BYTES: usize = 52;

/// [`Kind`] of CronJob objects.
pub struct CronJob;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["cj"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::status("CronJob")],
    generation: Generation::Spec,
    columns: columns(),
    storage_version_hash: "sd5LIXh4Fjs=".into(),
    ..Declaration::new("batch", &["v1"], "CronJob", "cronjobs", "cronjob", Scope::Namespaced)
});

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::name(),
        Column::text("Schedule", "when a Job is due, as cron writes it"),
        Column::text("Timezone", "the time zone of the schedule"),
        Column::boolean("Suspend", "whether no new Jobs are made"),
        Column::integer("Active", "how many Jobs are running"),
        Column::text("Last Schedule", "how long ago the last Job was due"),
        Column::age(),
    ];
    columns.extend(pod_controller::container_columns());
    columns.push(pod_controller::selector_column());
    columns
}

impl Kind for CronJob {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = ensure(object, "spec");
        default_text(spec, "concurrencyPolicy", "Allow");
        view::set_default(spec, "suspend", || false.into());
        view::set_default(spec, "successfulJobsHistoryLimit", || 3.into());
        view::set_default(spec, "failedJobsHistoryLimit", || 1.into());
        let job = ensure(spec, "jobTemplate");
        // kube-apiserver always writes it.
        ensure(job, "metadata");
        job_spec::set_template_defaults(ensure(job, "spec"));
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        checks::set(object, "status", Value::Object(Map::new()));
        pod_controller::drop_disabled_fields(object.pointer_mut("/spec/jobTemplate/spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        pod_controller::drop_disabled_fields(new.pointer_mut("/spec/jobTemplate/spec"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let path = Path::root("spec");
        validate_schedule(view::text(spec, &["schedule"]), &path.child("schedule"), errors);
        checks::non_negative(spec, "startingDeadlineSeconds", &path, errors);
        if let Some(zone) = spec.get("timeZone").and_then(Value::as_str) {
            errors.ratcheted(ratchet::TIME_ZONE, |errors| {
                time_zone::validate(zone, &path.child("timeZone"), errors);
            });
        }
        let policy = view::text(spec, &["concurrencyPolicy"]);
        rules::one_of(&path.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"], errors);
        validate_job_template(spec, &path.child("jobTemplate.spec"), errors);
        let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
        checks::all_non_negative(spec, &limits, &path, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let name = view::name(object);
        if name.len() > MAX_NAME_BYTES {
            let detail = "must be no more than 52 characters";
            errors.push(FieldError::invalid(&Path::root("metadata.name"), name, detail));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate_zones(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_controller::name_warnings(new, old);
        if old.is_none_or(|old| !same(new.get("spec"), old.get("spec"))) {
            let path = Path::root("spec.jobTemplate.spec");
            warnings.extend(job_spec::warnings(job_template(&new["spec"]), &path));
        }
        if old.is_some() && view::text(new, &["spec", "schedule"]).contains("TZ") {
            let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                           https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let job = job_template(spec);
        let [names, images] = pod_controller::container_cells(pod_controller::template(job));
        vec![
            view::name(object).into(),
            view::text(spec, &["schedule"]).into(),
            spec.get("timeZone").cloned().unwrap_or_else(|| "<none>".into()),
            suspended(spec).into(),
            view::items(object, &["status", "active"]).len().into(),
            last_schedule(object, now).into(),
            view::age(object, now),
            names,
            images,
            pod_controller::selector_cell(job),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let zoned = sample(json!({"schedule": "TZ=UTC 0 * * * *"}), json!({}));
        let mut named = sample(json!({}), json!({}));
        named["metadata"]["name"] = "x".repeat(53).into();
        let renamed = sample(json!({"timeZone": "Mars/Base"}), json!({}));
        vec![
            crate::samples::Stored::new(zoned).refusing(
                json!({"spec": {"timeZone": "UTC"}}),
                "spec.schedule",
                "FieldValueInvalid",
            ),
            crate::samples::Stored::new(named),
            crate::samples::Stored::new(renamed).refusing(
                json!({"spec": {"timeZone": "Mars/Other"}}),
                "spec.timeZone",
                "FieldValueInvalid",
            ),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        use serde_json::json;

        let zoned = sample(json!({"schedule": "TZ=UTC 0 * * * *"}), json!({}));
        let told = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                    https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        vec![crate::samples::Warned::updated(zoned.clone(), zoned, &[told])]
    }
}

/// The spec of the job template.
fn job_template(spec: &Value) -> &Value {
    view::at(spec, &["jobTemplate", "spec"]).unwrap_or(&Value::Null)
}

fn suspended(spec: &Value) -> &'static str {
    match spec.get("suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
}

fn last_schedule(object: &Value, now: i64) -> String {
    let path = ["status", "lastScheduleTime"];
    if view::at(object, &path).is_none() { "<none>".to_owned() } else { view::age_since(object, &path, now) }
}

fn validate_schedule(schedule: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, schedule, errors) {
        return;
    }
    if let Err(message) = cron_schedule::check(schedule) {
        errors.push(FieldError::invalid(path, schedule, message));
    }
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(path, schedule, detail).unless(ratchet::ZONE_IN_SCHEDULE));
    }
}

/// A schedule that may keep its time zone cannot have `timeZone`, too.
fn validate_zones(new: &Value, old: &Value, errors: &mut ErrorList) {
    let schedule = |object| view::text(object, &["spec", "schedule"]);
    let has_zone = |object| schedule(object).contains("TZ");
    if has_zone(new) && has_zone(old) && view::at(new, &["spec", "timeZone"]).is_some() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(FieldError::invalid(&Path::root("spec.schedule"), schedule(new), detail));
    }
}

fn validate_job_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let job = job_template(spec);
    job_spec::validate(job, path, errors);
    if let Some(selector) = job.get("selector") {
        let detail = "`selector` will be auto-generated";
        let found = internal_types::printed("*@meta.LabelSelector", Some(selector));
        errors.push(FieldError::invalid(&path.child("selector"), found, detail));
    }
    if view::is_true(job, &["manualSelector"]) {
        let found = BadValue::Bool(true);
        errors.push(FieldError::not_supported(&path.child("manualSelector"), found, &["nil", "false"]));
    }
}

#[cfg(any(test, feature = "samples"))]
fn sample(extra: Value, job: Value) -> Value {
    use serde_json::json;

    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": job_spec::sample_template()}},
        },
    });
    for (pointer, extra) in [("/spec", extra), ("/spec/jobTemplate/spec", job)] {
        if let (Some(Value::Object(fields)), Value::Object(extra)) = (object.pointer_mut(pointer), extra) {
            fields.extend(extra);
        }
    }
    object
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let refused = |extra: Value, field, reason| Refused::new(sample(extra, json!({})), field, reason);
    let refused_job = |job: Value, field, reason| Refused::new(sample(json!({}), job), field, reason);
    let mut long = sample(json!({}), json!({}));
    long["metadata"]["name"] = "x".repeat(53).into();
    Samples {
        valid: vec![
            sample(
                json!({
                    "timeZone": "Europe/Zurich",
                    "concurrencyPolicy": "Forbid",
                    "startingDeadlineSeconds": 60,
                    "successfulJobsHistoryLimit": 0,
                }),
                json!({"completions": 2, "backoffLimit": 1}),
            ),
            sample(json!({"schedule": "@hourly", "suspend": true}), json!({})),
        ],
        invalid: vec![
            refused(json!({"schedule": ""}), "spec.schedule", "FieldValueRequired"),
            refused(json!({"schedule": "often"}), "spec.schedule", "FieldValueInvalid"),
            refused(json!({"schedule": "TZ=UTC 0 * * * *"}), "spec.schedule", "FieldValueInvalid"),
            refused(json!({"timeZone": "Mars/Base"}), "spec.timeZone", "FieldValueInvalid"),
            refused(
                json!({"concurrencyPolicy": "Maybe"}),
                "spec.concurrencyPolicy",
                "FieldValueNotSupported",
            ),
            refused(
                json!({"startingDeadlineSeconds": -1}),
                "spec.startingDeadlineSeconds",
                "FieldValueInvalid",
            ),
            refused(
                json!({"failedJobsHistoryLimit": -1}),
                "spec.failedJobsHistoryLimit",
                "FieldValueInvalid",
            ),
            refused_job(
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                "spec.jobTemplate.spec.selector",
                "FieldValueInvalid",
            ),
            refused_job(
                json!({"manualSelector": true}),
                "spec.jobTemplate.spec.manualSelector",
                "FieldValueNotSupported",
            ),
            refused_job(json!({"parallelism": -1}), "spec.jobTemplate.spec.parallelism", "FieldValueInvalid"),
            Refused::new(long, "metadata.name", "FieldValueInvalid"),
        ],
        updates: vec![json!({"spec": {"schedule": "0 0 * * 0", "suspend": true}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"schedule": "0 0 * *"}}),
            "spec.schedule",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_shows_the_schedule() {
        let mut object = sample(json!({"suspend": true}), json!({}));
        let cells = CronJob.cells(&object, 0);
        let expected = [
            json!("*/5 * * * *"),
            json!("<none>"),
            json!("True"),
            json!(0),
            json!("<none>"),
            json!("<unknown>"),
        ];
        assert_eq!(cells[1..7], expected);
        object["status"] = json!({"active": [{}], "lastScheduleTime": "2023-11-14T22:13:10Z"});
        let cells = CronJob.cells(&object, 1_700_000_000);
        assert_eq!(cells[4..6], [json!(1), json!("10s")]);
    }

    #[test]
    fn job_template_gets_no_defaults_of_jobs() {
        let mut object = sample(json!({}), json!({}));
        CronJob.set_defaults(&mut object);
        assert_eq!(object["spec"]["jobTemplate"]["spec"].get("backoffLimit"), None);
        assert_eq!(object["spec"]["concurrencyPolicy"], "Allow");
    }
}
