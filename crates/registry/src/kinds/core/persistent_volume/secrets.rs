//! Secrets that a node needs to mount a persistent volume.

use serde_json::Value;

use crate::view;

/// Fields of volume sources that name a secret that the node reads, with or without a namespace.
const SECRETS: &[[&str; 2]] = &[
    ["cephfs", "secretRef"],
    ["cinder", "secretRef"],
    ["flexVolume", "secretRef"],
    ["rbd", "secretRef"],
    ["scaleIO", "secretRef"],
    ["iscsi", "secretRef"],
    ["storageos", "secretRef"],
    ["csi", "nodePublishSecretRef"],
    ["csi", "nodeStageSecretRef"],
    ["csi", "nodeExpandSecretRef"],
];

/// Sources whose secret references always have a namespace. In all others an absent namespace means that of the
/// claim.
const ALWAYS_QUALIFIED: [&str; 3] = ["cinder", "storageos", "csi"];

/// Returns namespace and name of each secret that a node reads to mount a volume.
pub fn node_secrets(volume: &Value) -> impl Iterator<Item = (&str, &str)> {
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let claim_namespace = view::text(spec, &["claimRef", "namespace"]);
    let azure = view::at(spec, &["azureFile"]).map(move |source| {
        let own_namespace = view::text(source, &["secretNamespace"]);
        let namespace = if own_namespace.is_empty() { claim_namespace } else { own_namespace };
        (namespace, view::text(source, &["secretName"]))
    });
    let others = SECRETS.iter().filter_map(move |path| {
        let secret = view::at(spec, path)?;
        let own_namespace = view::text(secret, &["namespace"]);
        let means_claim = own_namespace.is_empty() && !ALWAYS_QUALIFIED.contains(&path[0]);
        Some((if means_claim { claim_namespace } else { own_namespace }, view::text(secret, &["name"])))
    });
    azure.into_iter().chain(others).filter(|(_, name)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_secrets_are_those_that_the_node_reads() {
        let check = |source: Value, expected: &[(&str, &str)]| {
            let mut volume = json!({"spec": source});
            volume["spec"]["claimRef"] = json!({"namespace": "claimed", "name": "c"});
            assert_eq!(node_secrets(&volume).collect::<Vec<_>>(), expected);
        };
        check(json!({"azureFile": {"secretName": "s"}}), &[("claimed", "s")]);
        check(json!({"azureFile": {"secretName": "s", "secretNamespace": "n"}}), &[("n", "s")]);
        check(json!({"rbd": {"secretRef": {"name": "s"}}}), &[("claimed", "s")]);
        check(json!({"iscsi": {"secretRef": {"name": "s", "namespace": "n"}}}), &[("n", "s")]);
        check(json!({"cinder": {"secretRef": {"name": "s"}}}), &[("", "s")]);
        check(json!({"nfs": {"server": "s"}}), &[]);
        let secret = |name: &str| json!({"name": name, "namespace": "n"});
        check(
            json!({"csi": {
                "controllerPublishSecretRef": secret("no"), "controllerExpandSecretRef": secret("no"),
                "nodePublishSecretRef": secret("a"), "nodeStageSecretRef": secret("b"),
                "nodeExpandSecretRef": secret("c"),
            }}),
            &[("n", "a"), ("n", "b"), ("n", "c")],
        );
    }
}
