//! The status of one container of a pod.

use coracle_meta::time::go_duration;
use serde_json::{Map, Value, json};

use crate::run::{Exit, Run, State};
use crate::status::{Waiting, time};
use crate::view::{self, Container, ContainerStatus, Pod};

/// True if the reported status of a container is up to date. Times are not compared.
pub(crate) fn is_same(reported: &ContainerStatus, run: &Run, waiting: &Waiting<'_>) -> bool {
    let state = &reported.state;
    let same_state = match &run.state {
        State::Waiting => {
            let is_same = |reported: &view::Waiting| {
                (&*reported.reason, &*reported.message) == (waiting.reason, waiting.message)
            };
            state.waiting.as_ref().is_some_and(is_same)
        }
        State::BackingOff(_) => {
            state.waiting.as_ref().is_some_and(|reported| &*reported.reason == "CrashLoopBackOff")
        }
        State::Running { .. } => state.running.is_some(),
        State::Exited(exit) => {
            state.terminated.as_ref().is_some_and(|reported| reported.exit_code == exit.code)
        }
        State::Lost => state.terminated.is_some(),
    };
    same_state && reported.ready == run.ready && reported.restart_count == run.restarts
}

/// The full status of a container.
pub(crate) fn container_status(
    uid: &str,
    container: &Container,
    run: &Run,
    waiting: &Waiting<'_>,
    pod: &Pod,
) -> Value {
    let has_run = !matches!(run.state, State::Waiting | State::Lost) || run.last.is_some();
    // While a container waits for its restart, the ID is that of its last run.
    let id = |restarts: u32| format!("fake://{}", digest(&[uid, &container.name, &restarts.to_string()]));
    let last = run.last.as_ref().map(|exit| terminated(exit, id(run.restarts.saturating_sub(1))));
    let current =
        if matches!(run.state, State::BackingOff(_)) { run.restarts.saturating_sub(1) } else { run.restarts };
    let mut status = json!({
        "name": container.name,
        "image": container.image,
        "imageID": if has_run { image_id(&container.image) } else { String::new() },
        "containerID": if has_run { id(current).into() } else { Value::Null },
        "ready": run.ready,
        "started": matches!(run.state, State::Running { .. }),
        "restartCount": run.restarts,
        "state": state(container, run, waiting, pod, id(current)),
        "lastState": last.map_or_else(|| json!({}), |last| json!({"terminated": last})),
    });
    let resources = &container.resources;
    if !resources.requests.is_empty() || !resources.limits.is_empty() {
        status["resources"] = resources_of(container);
        status["allocatedResources"] = json!(resources.requests);
    }
    if !container.volume_mounts.is_empty() {
        status["volumeMounts"] = container.volume_mounts.iter().map(volume_mount).collect();
    }
    status
}

fn resources_of(container: &Container) -> Value {
    let mut resources = Map::new();
    let each = [("requests", &container.resources.requests), ("limits", &container.resources.limits)];
    for (name, amounts) in each.into_iter().filter(|(_, amounts)| !amounts.is_empty()) {
        resources.insert(name.to_owned(), json!(amounts));
    }
    Value::Object(resources)
}

fn volume_mount(mount: &crate::view::VolumeMount) -> Value {
    let mut value = json!({"name": mount.name, "mountPath": mount.mount_path});
    if mount.read_only {
        value["readOnly"] = true.into();
        value["recursiveReadOnly"] = "Disabled".into();
    }
    value
}

fn state(container: &Container, run: &Run, waiting: &Waiting<'_>, pod: &Pod, id: String) -> Value {
    match &run.state {
        State::Waiting if waiting.message.is_empty() => json!({"waiting": {"reason": waiting.reason}}),
        State::Waiting => json!({"waiting": {"reason": waiting.reason, "message": waiting.message}}),
        State::BackingOff(wait) => {
            let metadata = &pod.metadata;
            let message = format!(
                "back-off {} restarting failed container={} pod={}_{}({})",
                go_duration(*wait),
                container.name,
                metadata.name(),
                metadata.namespace(),
                metadata.uid(),
            );
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}})
        }
        State::Running { since } => json!({"running": {"startedAt": time(*since)}}),
        State::Exited(exit) => json!({"terminated": terminated(exit, id)}),
        State::Lost => json!({"terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "startedAt": null,
            "finishedAt": null,
        }}),
    }
}

fn terminated(exit: &Exit, id: String) -> Value {
    json!({
        "exitCode": exit.code,
        "reason": if exit.code == 0 { "Completed" } else { "Error" },
        "startedAt": time(exit.started),
        "finishedAt": time(exit.finished),
        "containerID": id,
    })
}

fn image_id(image: &str) -> String {
    let name = image.split('@').next().unwrap_or_default();
    // A colon after the last slash begins the tag; one before it, a port.
    let tag = name.rfind(':').filter(|colon| !name[*colon..].contains('/')).unwrap_or(name.len());
    format!("{}@sha256:{}", &name[..tag], digest(&[image]))
}

fn digest(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(part.as_bytes());
        context.update(b"\n");
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn durations_and_image_ids_have_the_format_of_the_kubelet() {
        let formatted = |seconds| go_duration(Duration::from_secs(seconds));
        assert_eq!((formatted(80), formatted(300)), ("1m20s".to_owned(), "5m0s".to_owned()));
        let repository = |image: &str| image_id(image).split("@sha256:").next().map(str::to_owned);
        assert_eq!(repository("registry:5000/a/nginx:1.27").as_deref(), Some("registry:5000/a/nginx"));
        assert_eq!(repository("nginx@sha256:00").as_deref(), Some("nginx"));
    }
}
