//! Pods of a job.

use serde_json::{Value, json};

use super::plan::NewPod;
use super::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::pod_control::{Owner, pod_from_template};
use crate::view::Job;

/// Environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Maximum length of a `generateName` prefix (`MaxGeneratedNameLength` in k8s.io/apiserver/pkg/storage/names).
const MAX_PREFIX: usize = 58;

/// The common part of a job's pods, created once per sync.
pub(super) fn prototype(owner: &Owner<'_>, job: &Job) -> Value {
    let mut pod = pod_from_template(owner, &job.spec.template);
    let finalizers = &mut pod["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(known) if known.iter().any(|name| name == FINALIZER) => {}
        Some(known) => known.push(FINALIZER.into()),
        None => *finalizers = json!([FINALIZER]),
    }
    if job.is_indexed() {
        for containers in ["containers", "initContainers"] {
            let containers = pod["spec"].get_mut(containers).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(add_index_variable);
        }
    }
    pod
}

/// A pod of the job.
pub(super) fn pod(prototype: &Value, job: &Job, new: NewPod) -> Value {
    let mut pod = prototype.clone();
    let Some(index) = new.index else { return pod };
    let (name, text) = (job.metadata.name(), index.to_string());
    let metadata = &mut pod["metadata"];
    metadata["generateName"] = prefix(name, index).into();
    metadata["labels"][INDEX] = text.clone().into();
    metadata["annotations"][INDEX] = text.into();
    if let Some((counted, ignored)) = new.failures {
        metadata["annotations"][FAILURE_COUNT] = counted.to_string().into();
        if ignored > 0 {
            metadata["annotations"][IGNORED_FAILURE_COUNT] = ignored.to_string().into();
        }
    }
    pod["spec"]["hostname"] = format!("{name}-{index}").into();
    pod
}

/// Name prefix: the job's name, truncated if necessary, and the index.
fn prefix(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let job = &job[..job.len().min(MAX_PREFIX - end.len())];
    format!("{job}{end}")
}

/// Adds the environment variable, unless the container defines it.
fn add_index_variable(container: &mut Value) {
    let variable = json!({
        "name": INDEX_VARIABLE,
        "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}},
    });
    match container.get_mut("env").and_then(Value::as_array_mut) {
        Some(known) if known.iter().any(|known| known["name"] == INDEX_VARIABLE) => {}
        Some(known) => known.push(variable),
        None => container["env"] = json!([variable]),
    }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::{ClusterId, ObjectKey};

    use super::super::JOB;
    use super::*;

    fn created(spec: Value, new: NewPod) -> Value {
        let metadata = json!({"name": "j", "namespace": "n", "uid": "u"});
        let job: Job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "j");
        let owner = Owner { key: &key, kind: JOB, metadata: &job.metadata };
        pod(&prototype(&owner, &job), &job, new)
    }

    #[test]
    fn pod_has_the_tracking_finalizer() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}});
        let pod = created(json!({"template": template}), NewPod { index: None, failures: None });
        assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(pod["metadata"]["generateName"], "j-");
        assert_eq!(pod["spec"], json!({"containers": [{"name": "c"}]}));
        let template = json!({"metadata": {"finalizers": ["a/b", FINALIZER]}});
        let pod = created(json!({"template": template}), NewPod { index: None, failures: None });
        assert_eq!(pod["metadata"]["finalizers"], json!(["a/b", FINALIZER]));
    }

    #[test]
    fn pod_has_its_completion_index() {
        let own = json!([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]);
        let spec = json!({"containers": [{"name": "c"}, {"name": "d", "env": own}], "initContainers": [{"name": "i"}]});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
        let spec = json!({"completionMode": "Indexed", "completions": 5, "template": template});
        let pod = created(spec.clone(), NewPod { index: Some(3), failures: Some((2, 1)) });
        let metadata = &pod["metadata"];
        assert_eq!(metadata["generateName"], "j-3-");
        assert_eq!(metadata["labels"], json!({"a": "b", "batch.kubernetes.io/job-completion-index": "3"}));
        let annotations = json!({
            "batch.kubernetes.io/job-completion-index": "3",
            "batch.kubernetes.io/job-index-failure-count": "2",
            "batch.kubernetes.io/job-index-ignored-failure-count": "1",
        });
        assert_eq!(metadata["annotations"], annotations);
        assert_eq!(pod["spec"]["hostname"], "j-3");
        let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        let variable =
            json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
        assert_eq!(pod["spec"]["containers"][0]["env"], variable);
        assert_eq!(pod["spec"]["containers"][1]["env"], own);
        assert_eq!(pod["spec"]["initContainers"][0]["env"], variable);
        let pod = created(spec, NewPod { index: Some(0), failures: Some((0, 0)) });
        assert_eq!(pod["metadata"]["annotations"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn long_names_are_truncated() {
        assert_eq!(prefix("job", 7), "job-7-");
        assert_eq!(prefix(&"a".repeat(63), 12), format!("{}-12-", "a".repeat(54)));
    }
}
