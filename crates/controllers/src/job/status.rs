//! The status patch of a job.

use serde_json::{Value, json};

use crate::view::{JobStatus, rfc3339};

/// A merge patch that sets the status, and fails if the job has changed. Fields without a value are removed; fields
/// unknown to this controller are kept.
pub(super) fn patch(status: &JobStatus, resource_version: &str) -> Value {
    let count = |count: i32| (count != 0).then_some(count);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let list = |uids: &[Box<str>]| (!uids.is_empty()).then(|| uids.to_vec());
    let uncounted = &status.uncounted_terminated_pods;
    let conditions = (!status.conditions.is_empty()).then_some(&status.conditions);
    json!({
        "metadata": {"resourceVersion": resource_version},
        "status": {
            "conditions": conditions,
            "startTime": status.start_time.map(rfc3339),
            "completionTime": status.completion_time.map(rfc3339),
            "active": count(status.active),
            "succeeded": count(status.succeeded),
            "failed": count(status.failed),
            "terminating": status.terminating,
            "ready": status.ready,
            "completedIndexes": text(&status.completed_indexes),
            "failedIndexes": status.failed_indexes,
            "uncountedTerminatedPods": {
                "succeeded": list(&uncounted.succeeded), "failed": list(&uncounted.failed),
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use coracle_base::Timestamp;

    use super::*;
    use crate::view::UncountedTerminatedPods;

    #[test]
    fn empty_fields_are_removed() {
        let mut status = JobStatus { ready: Some(0), ..JobStatus::default() };
        let nothing = json!({
            "conditions": null, "startTime": null, "completionTime": null, "active": null, "succeeded": null,
            "failed": null, "terminating": null, "ready": 0, "completedIndexes": null, "failedIndexes": null,
            "uncountedTerminatedPods": {"succeeded": null, "failed": null},
        });
        let expected = json!({"metadata": {"resourceVersion": "7"}, "status": nothing});
        assert_eq!(patch(&status, "7"), expected);
        status.start_time = Some(Timestamp::from_millis(1_500));
        status.uncounted_terminated_pods =
            UncountedTerminatedPods { succeeded: vec!["u".into()], failed: Vec::new() };
        let written = patch(&status, "7");
        assert_eq!(written["status"]["startTime"], "1970-01-01T00:00:01Z");
        assert_eq!(written["status"]["uncountedTerminatedPods"]["succeeded"], json!(["u"]));
    }
}
