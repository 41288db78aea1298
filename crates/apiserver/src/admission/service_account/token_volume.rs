//! The volume with the API credentials of a pod.

use coracle_registry::view;
use serde_json::{Value, json};

use crate::admission::read;

/// The prefix of the volume's name.
pub(super) const PREFIX: &str = "kube-api-access-";

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An hour and seven seconds: by the seven seconds the server recognizes tokens whose holders may not know that tokens
/// expire (`WarnOnlyBoundTokenExpirationSeconds` in `pkg/serviceaccount`).
const TOKEN_EXPIRATION_S: i64 = 60 * 60 + 7;

/// Mounts the volume into every container that has no mount at its path, and adds the volume if it is needed.
pub(super) fn mount(pod: &mut Value, new_name: impl FnOnce() -> String) {
    let existing = view::items(pod, &["spec", "volumes"])
        .iter()
        .map(|volume| view::text(volume, &["name"]))
        .find(|name| name.starts_with(PREFIX))
        .map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(new_name);
    let mut is_used = false;
    for list in ["initContainers", "containers"] {
        for container in read::items_mut(pod, &["spec", list]) {
            let mounts = view::items(container, &["volumeMounts"]);
            if mounts.iter().all(|mount| view::text(mount, &["mountPath"]) != MOUNT_PATH) {
                let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
                read::push(container, &["volumeMounts"], mount);
                is_used = true;
            }
        }
    }
    if is_new && is_used {
        read::push(pod, &["spec", "volumes"], volume(&name));
    }
}

fn volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_EXPIRATION_S, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_volume_is_used() {
        let mut pod = json!({"spec": {
            "containers": [{"volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}, {}],
            "volumes": [{"name": "kube-api-access-mine"}],
        }});
        mount(&mut pod, || unreachable!("there is a volume"));
        assert_eq!(pod["spec"]["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(pod["spec"]["containers"][1]["volumeMounts"][0]["name"], "kube-api-access-mine");
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn unused_volume_is_not_added() {
        let mut pod = json!({"spec": {"containers": [{"volumeMounts": [{"mountPath": MOUNT_PATH}]}]}});
        let before = pod.clone();
        mount(&mut pod, || "kube-api-access-x".to_owned());
        assert_eq!(pod, before);
    }
}
