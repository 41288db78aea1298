//! Validation of updates of a Job's status.
//!
//! Most rules apply only to changed fields: a status that is invalid already, or became invalid by a change of the
//! spec, can still be updated.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::Value;

use super::{indexes, job_spec};
use crate::kinds::apps::checks::{self, count};
use crate::kinds::rules::same;
use crate::{internal_types, view};

/// Whether a condition is true.
pub(super) fn has_condition(status: &Value, condition: &str) -> bool {
    condition_is(status, condition, "True")
}

fn condition_is(status: &Value, condition: &str, wanted: &str) -> bool {
    view::items(status, &["conditions"])
        .iter()
        .any(|item| view::text(item, &["type"]) == condition && view::text(item, &["status"]) == wanted)
}

/// An update of the status.
struct Change<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

/// Validates an update of the status.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let change = Change {
        spec: new.get("spec").unwrap_or(&Value::Null),
        new: new.get("status").unwrap_or(&Value::Null),
        old: old.get("status").unwrap_or(&Value::Null),
    };
    let path = Path::root("status");
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    checks::all_non_negative(change.new, &counts, &path, errors);
    validate_uncounted_pods(change.new, &path.child("uncountedTerminatedPods"), errors);
    change.validate_conditions(&path.child("conditions"), errors);
    change.validate_times(&path, errors);
    change.validate_end(&path, errors);
    change.validate_indexes(&path, errors);
    change.validate_progress(&path, errors);
}

/// Requires UIDs, each of them once.
fn validate_uncounted_pods(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        let pods = view::items(status, &["uncountedTerminatedPods", field]).iter();
        let path = path.child(field);
        for (index, uid) in pods.filter_map(Value::as_str).enumerate() {
            let path = path.index(index);
            if uid.is_empty() {
                errors.push(FieldError::invalid(&path, BadValue::named(uid), "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(&path, BadValue::named(uid)));
            }
        }
    }
}

impl Change<'_> {
    fn has(&self, condition: &str) -> bool {
        has_condition(self.new, condition)
    }

    fn had(&self, condition: &str) -> bool {
        has_condition(self.old, condition)
    }

    fn flips(&self, condition: &str) -> bool {
        self.has(condition) != self.had(condition)
    }

    fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    fn finish_flips(&self) -> bool {
        self.is_finished() != (self.had("Complete") || self.had("Failed"))
    }

    /// Whether a field has changed; for counts, absent equals 0.
    fn changes(&self, field: &str) -> bool {
        let values = [self.new, self.old].map(|status| status.get(field));
        match values {
            [Some(Value::Number(number)), None] | [None, Some(Value::Number(number))]
                if field == "active" =>
            {
                number.as_i64() != Some(0)
            }
            [new, old] => !same(new, old),
        }
    }

    fn validate_conditions(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let [complete, failed, failing, succeeding] =
            ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].map(|name| self.has(name));
        let has_policy = self.spec.get("successPolicy").is_some();
        let refused = [
            (
                complete && failed && (self.flips("Complete") || self.flips("Failed")),
                "cannot set Complete=True and Failed=true conditions",
            ),
            (
                complete && failing && (self.flips("Complete") || self.flips("FailureTarget")),
                "cannot set Complete=True and FailureTarget=true conditions",
            ),
            (
                failed && !failing && (self.flips("Failed") || self.changes("failedIndexes")),
                "cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            (
                complete && !succeeding && (self.flips("Complete") || self.flips("SuccessCriteriaMet")),
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
            (succeeding && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            (succeeding && failing, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
            (
                has_policy && !succeeding && complete,
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            ),
            (self.had("Failed") && !failed, "cannot disable the terminal Failed=True condition"),
            (self.had("Complete") && !complete, "cannot disable the terminal Complete=True condition"),
            (
                self.had("FailureTarget") && !failing,
                "cannot disable the terminal FailureTarget=True condition",
            ),
            (
                self.had("SuccessCriteriaMet") && !succeeding,
                "cannot disable the SuccessCriteriaMet=True condition",
            ),
            (
                self.had("Complete") && !self.had("SuccessCriteriaMet") && succeeding,
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            ),
        ];
        for (_, detail) in refused.into_iter().filter(|(refused, _)| *refused) {
            errors.push(FieldError::invalid(path, BadValue::Omitted, detail));
        }
    }

    fn validate_times(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let [start, end] = ["startTime", "completionTime"].map(|field| self.new.get(field));
        let [old_start, old_end] = ["startTime", "completionTime"].map(|field| self.old.get(field));
        let complete = self.has("Complete");
        let end_path = path.child("completionTime");
        let shown = |time: Option<&Value>| BadValue::json(time.unwrap_or(&Value::Null));
        let mut refuse = |path: &Path<'_>, time, detail| {
            errors.push(FieldError::invalid(path, shown(time), detail));
        };
        let end_matters = self.flips("Complete") || self.changes("completionTime");
        if end_matters && end.is_some() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            refuse(&end_path, end, detail);
        }
        if (self.changes("startTime") || self.changes("completionTime"))
            && seconds(end).zip(seconds(start)).is_some_and(|(end, start)| end < start)
        {
            refuse(&end_path, end, "must be equal to or after `startTime`");
        }
        if end.is_some() && old_end.is_some() && seconds(end) != seconds(old_end) {
            refuse(&end_path, end, "field is immutable");
        }
        let resumes = self.had("Suspended") && condition_is(self.new, "Suspended", "False");
        let start_moves = old_start.is_some() && seconds(start) != seconds(old_start);
        if start_moves && !resumes && !view::is_true(self.spec, &["suspend"]) {
            let detail = "field is immutable for unsuspended job once set";
            refuse(&path.child("startTime"), start, detail);
        }
        if end_matters && end.is_none() && complete {
            let detail = "completionTime is required for Complete jobs";
            errors.push(FieldError::required(&end_path, detail));
        }
    }

    /// Validates the fields of a finished Job.
    fn validate_end(&self, path: &Path<'_>, errors: &mut ErrorList) {
        if !self.is_finished() {
            return;
        }
        let ends = self.finish_flips();
        let active = count(self.new, "active");
        if active > 0 && (ends || self.changes("active")) {
            let detail = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path.child("active"), active, detail));
        }
        let never_ran =
            view::is_true(self.spec, &["suspend"]) && view::integer(self.spec, &["completions"]) == Some(0);
        if self.new.get("startTime").is_none() && (ends || self.changes("startTime")) && !never_ran {
            let detail = "startTime is required for finished job";
            errors.push(FieldError::required(&path.child("startTime"), detail));
        }
        let uncounted = self.new.get("uncountedTerminatedPods").unwrap_or(&Value::Null);
        let has_uncounted = view::fields(uncounted, &[]).any(|(_, pods)| !view::items(pods, &[]).is_empty());
        if has_uncounted && (ends || self.changes("uncountedTerminatedPods")) {
            let path = path.child("uncountedTerminatedPods");
            errors.push(FieldError::invalid(
                &path,
                internal_types::printed("*@batch.UncountedTerminatedPods", Some(uncounted)),
                "must be empty for finished job",
            ));
        }
        let terminating = count(self.new, "terminating");
        if terminating > 0 && (ends || self.changes("terminating")) {
            let detail = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path.child("terminating"), terminating, detail));
        }
    }

    fn validate_indexes(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let completed = view::text(self.new, &["completedIndexes"]);
        let failed = self.new.get("failedIndexes").and_then(Value::as_str);
        let completions = view::integer(self.spec, &["completions"]);
        let per_index = self.spec.get("backoffLimitPerIndex").is_some();
        let [completed_path, failed_path] =
            ["completedIndexes", "failedIndexes"].map(|field| path.child(field));
        let mut refuse = |path: &Path<'_>, found: &str, detail: String| {
            errors.push(FieldError::invalid(path, found, detail));
        };
        let unreadable = |text: &str| completions.and_then(|max| indexes::count(text, max).err());
        let completed_changes = view::text(self.old, &["completedIndexes"]) != completed;
        let failed_changes = self.changes("failedIndexes");
        if let Some(error) = unreadable(completed).filter(|_| completed_changes) {
            refuse(&completed_path, completed, format!("error parsing completedIndexes: {error}"));
        }
        if let Some(failed) = failed.filter(|_| failed_changes && per_index)
            && let Some(error) = unreadable(failed)
        {
            refuse(&failed_path, failed, format!("error parsing failedIndexes: {error}"));
        }
        if completed_changes && !completed.is_empty() && !job_spec::is_indexed(self.spec) {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            refuse(&completed_path, completed, detail.to_owned());
        }
        let Some(failed) = failed else { return };
        if failed_changes && !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            refuse(&failed_path, failed, detail.to_owned());
        }
        let overlap = completions.and_then(|max| indexes::overlap(completed, failed, max));
        if let Some(index) = overlap.filter(|_| failed_changes || completed_changes) {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            refuse(&failed_path, failed, detail);
        }
    }

    /// Validates that counts are consistent and are not decremented.
    fn validate_progress(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let ready = count(self.new, "ready");
        if ready > count(self.new, "active") && (self.changes("ready") || self.changes("active")) {
            let detail = "cannot set more ready pods than active";
            errors.push(FieldError::invalid(&path.child("ready"), ready, detail));
        }
        // An elastic indexed Job may be scaled down.
        let elastic =
            job_spec::is_indexed(self.spec) && self.spec.get("completions") == self.spec.get("parallelism");
        for (field, may_fall) in [("failed", false), ("succeeded", elastic)] {
            let now = count(self.new, field);
            if now < count(self.old, field) && !may_fall {
                let detail = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(&path.child(field), now, detail));
            }
        }
    }
}

fn seconds(time: Option<&Value>) -> Option<i64> {
    time.and_then(Value::as_str).and_then(|text| text.parse::<Time>().ok()).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: &str = "2024-01-01T00:00:00Z";
    const END: &str = "2024-01-01T00:05:00Z";

    fn conditions(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"type": name, "status": "True"})).collect()
    }

    fn check(spec: Value, new: Value, old: Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let new = json!({"spec": spec, "status": new});
        validate_update(&new, &json!({"spec": spec, "status": old}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn job_may_run_and_complete() {
        let spec = json!({"completions": 2, "parallelism": 1, "completionMode": "NonIndexed"});
        let running = json!({"startTime": START, "active": 1, "ready": 1});
        assert!(check(spec.clone(), running.clone(), json!({})).is_empty());
        let done = json!({
            "startTime": START,
            "completionTime": END,
            "succeeded": 2,
            "uncountedTerminatedPods": {},
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"]),
        });
        assert!(check(spec.clone(), done.clone(), running.clone()).is_empty());
        assert_eq!(
            check(spec, running, done),
            [
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
            ]
        );
    }

    #[test]
    fn finished_job_needs_reason_and_time() {
        let done = json!({
            "conditions": conditions(&["Complete"]),
            "active": 1,
            "uncountedTerminatedPods": {"failed": ["u"]},
        });
        assert_eq!(
            check(json!({}), done, json!({})),
            [
                "status.conditions: Invalid value: cannot set Complete=True condition without the \
                 SuccessCriteriaMet=true condition",
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
                "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":null,\"Failed\":[\"u\"]}: must be \
                 empty for finished job",
            ]
        );
    }

    #[test]
    fn times_are_immutable() {
        assert_eq!(
            check(json!({}), json!({"startTime": END}), json!({"startTime": START})),
            [
                "status.startTime: Invalid value: \"2024-01-01T00:05:00Z\": field is immutable for unsuspended job \
              once set"
            ]
        );
        let suspended = json!({"suspend": true});
        assert!(check(suspended, json!({}), json!({"startTime": START})).is_empty());
    }

    #[test]
    fn indexes_must_be_those_of_the_job() {
        let spec = json!({"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
        let good = json!({"completedIndexes": "0,2", "failedIndexes": "1"});
        assert!(check(spec.clone(), good, json!({})).is_empty());
        let bad = json!({"completedIndexes": "0,3", "failedIndexes": "0"});
        assert_eq!(
            check(spec, bad.clone(), json!({})),
            [
                "status.completedIndexes: Invalid value: \"0,3\": error parsing completedIndexes: too large \
                 index: \"3\"",
                "status.failedIndexes: Invalid value: \"0\": failedIndexes and completedIndexes overlap at \
                 index: 0",
            ]
        );
        assert!(check(json!({"completions": 3}), bad.clone(), bad).is_empty());
    }

    #[test]
    fn uncounted_pods_must_be_unique() {
        let status = json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}});
        assert_eq!(
            check(json!({}), status, json!({})),
            [
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ]
        );
    }
}
