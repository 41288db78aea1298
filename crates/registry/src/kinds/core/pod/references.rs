//! References of a pod to other objects, which its node needs to run it.

use std::borrow::Cow;

use serde_json::Value;

use crate::kinds::core::pod_spec::annotation;
use crate::view;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fields of volume sources that name a secret.
const SECRETS_OF_VOLUMES: &[[&str; 2]] = &[
    ["azureFile", "secretName"],
    ["secret", "secretName"],
    ["cephfs", "secretRef"],
    ["cinder", "secretRef"],
    ["flexVolume", "secretRef"],
    ["rbd", "secretRef"],
    ["scaleIO", "secretRef"],
    ["iscsi", "secretRef"],
    ["storageos", "secretRef"],
    ["csi", "nodePublishSecretRef"],
];

/// Returns true for a mirror pod, which represents a static pod of its node.
pub fn is_mirror(pod: &Value) -> bool {
    view::at(pod, &["metadata", "annotations", annotation::MIRROR]).is_some()
}

/// Returns the names of the secrets that a pod references, possibly with duplicates.
pub fn secret_names(pod: &Value) -> impl Iterator<Item = &str> {
    let pull_secrets = view::items(pod, &["spec", "imagePullSecrets"]);
    let of_volumes = volumes(pod).iter().flat_map(|volume| {
        let sources = SECRETS_OF_VOLUMES.iter().filter_map(|path| view::at(volume, path));
        sources.map(|found| found.as_str().unwrap_or_else(|| view::text(found, &["name"])))
    });
    pull_secrets
        .iter()
        .map(|reference| view::text(reference, &["name"]))
        .chain(of_containers(pod, "secretRef", "secretKeyRef"))
        .chain(of_volumes)
        .chain(of_projections(pod, "secret"))
        .filter(|name| !name.is_empty())
}

/// Returns the names of the config maps that a pod references, possibly with duplicates.
pub fn config_map_names(pod: &Value) -> impl Iterator<Item = &str> {
    of_containers(pod, "configMapRef", "configMapKeyRef")
        .chain(volumes(pod).iter().map(|volume| view::text(volume, &["configMap", "name"])))
        .chain(of_projections(pod, "configMap"))
        .filter(|name| !name.is_empty())
}

/// Returns the names of a pod's PersistentVolumeClaims: referenced ones, and those created for ephemeral volumes.
pub fn claim_names(pod: &Value) -> impl Iterator<Item = Cow<'_, str>> {
    volumes(pod).iter().filter_map(|volume| claim_name(pod, volume))
}

/// Returns the name of the PersistentVolumeClaim behind a volume of a pod, if it has one.
pub fn claim_name<'a>(pod: &Value, volume: &'a Value) -> Option<Cow<'a, str>> {
    if let Some(claim) = view::at(volume, &["persistentVolumeClaim"]) {
        return Some(view::text(claim, &["claimName"]).into()).filter(|name: &Cow<'_, str>| !name.is_empty());
    }
    let own = || format!("{}-{}", view::name(pod), view::text(volume, &["name"])).into();
    view::at(volume, &["ephemeral"]).map(|_| own())
}

/// Returns the names of a pod's ResourceClaims: referenced ones, and those created from templates.
pub fn resource_claim_names(pod: &Value) -> impl Iterator<Item = &str> {
    let generated_for = |claim: &Value| {
        let statuses = view::items(pod, &["status", "resourceClaimStatuses"]).iter();
        let name = view::text(claim, &["name"]);
        let generated = statuses.into_iter().find(|status| view::text(status, &["name"]) == name);
        generated.map_or("", |status| view::text(status, &["resourceClaimName"]))
    };
    view::items(pod, &["spec", "resourceClaims"])
        .iter()
        .map(move |claim| match view::text(claim, &["resourceClaimName"]) {
            "" => generated_for(claim),
            name => name,
        })
        .chain([view::text(pod, &["status", "extendedResourceClaimStatus", "resourceClaimName"])])
        .filter(|name| !name.is_empty())
}

fn volumes(pod: &Value) -> &[Value] {
    view::items(pod, &["spec", "volumes"])
}

/// Returns the names of objects that containers use as a whole (`envFrom`) or by key (`env`).
fn of_containers<'a>(
    pod: &'a Value,
    whole: &'static str,
    key: &'static str,
) -> impl Iterator<Item = &'a str> {
    let containers = CONTAINERS.iter().flat_map(|list| view::items(pod, &["spec", list]));
    containers.flat_map(move |container| {
        let sources = view::items(container, &["envFrom"]).iter();
        let variables = view::items(container, &["env"]).iter();
        sources
            .map(move |source| view::text(source, &[whole, "name"]))
            .chain(variables.map(move |variable| view::text(variable, &["valueFrom", key, "name"])))
    })
}

fn of_projections<'a>(pod: &'a Value, source: &'static str) -> impl Iterator<Item = &'a str> {
    let sources = volumes(pod).iter().flat_map(|volume| view::items(volume, &["projected", "sources"]));
    sources.map(move |projected| view::text(projected, &[source, "name"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_names_cover_all_references() {
        let pod = json!({"spec": {
            "imagePullSecrets": [{"name": "pull"}, {}],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}]}],
            "containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key"}}}]}],
            "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "late"}}, {"configMapRef": {"name": "no"}}]}],
            "volumes": [
                {"azureFile": {"secretName": "azure"}}, {"secret": {"secretName": "plain"}},
                {"cephfs": {"secretRef": {"name": "ceph"}}}, {"cinder": {"secretRef": {"name": "cinder"}}},
                {"flexVolume": {"secretRef": {"name": "flex"}}}, {"rbd": {"secretRef": {"name": "rbd"}}},
                {"scaleIO": {"secretRef": {"name": "scale"}}}, {"iscsi": {"secretRef": {"name": "iscsi"}}},
                {"storageos": {"secretRef": {"name": "storage"}}},
                {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
                {"projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "no"}}]}},
            ],
        }});
        let expected = [
            "pull",
            "init",
            "key",
            "late",
            "azure",
            "plain",
            "ceph",
            "cinder",
            "flex",
            "rbd",
            "scale",
            "iscsi",
            "storage",
            "csi",
            "projected",
        ];
        assert_eq!(secret_names(&pod).collect::<Vec<_>>(), expected);
        assert_eq!(secret_names(&json!({})).count(), 0);
    }

    #[test]
    fn config_map_names_cover_all_references() {
        let pod = json!({"spec": {
            "containers": [{
                "env": [{"valueFrom": {"configMapKeyRef": {"name": "key"}}}],
                "envFrom": [{"configMapRef": {"name": "all"}}],
            }],
            "volumes": [
                {"configMap": {"name": "volume"}},
                {"projected": {"sources": [{"configMap": {"name": "projected"}}, {"secret": {"name": "no"}}]}},
            ],
        }});
        assert_eq!(config_map_names(&pod).collect::<Vec<_>>(), ["all", "key", "volume", "projected"]);
    }

    #[test]
    fn claim_names_cover_referenced_and_ephemeral_claims() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "d", "emptyDir": {}},
        ]}});
        assert_eq!(claim_names(&pod).collect::<Vec<_>>(), ["c", "p-b"]);
    }

    #[test]
    fn resource_claim_names_cover_referenced_and_generated_claims() {
        let pod = json!({
            "spec": {"resourceClaims": [
                {"name": "a", "resourceClaimName": "named"},
                {"name": "b", "resourceClaimTemplateName": "t"},
                {"name": "c", "resourceClaimTemplateName": "t"},
                {"name": "d", "resourceClaimTemplateName": "t"},
            ]},
            "status": {
                "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}, {"name": "c"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
            },
        });
        assert_eq!(resource_claim_names(&pod).collect::<Vec<_>>(), ["named", "made", "extended"]);
    }
}
