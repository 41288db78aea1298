//! An APIService for each group and version that this server serves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::Seed;
use crate::catalog;
use crate::kinds::apiregistration::api_service::ApiService;

/// The group of APIServices, which has no APIService itself.
const OWN_GROUP: &str = "apiregistration.k8s.io";

/// `groupPriorityMinimum` of groups, as in kube-apiserver.
const GROUPS: &[(&str, u32)] = &[
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    // In Kubernetes, metrics-server is another program, which sets this in its own APIService.
    ("metrics.k8s.io", 100),
];

/// Priority of groups that kube-apiserver does not list.
const OTHER_GROUP: u32 = 1_000;

/// `versionPriority` of a version within its group. Most versions have the same.
fn version_priority(group: &str, version: &str) -> u32 {
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        ("metrics.k8s.io", _) => 100,
        _ => 15,
    }
}

pub(super) fn seeds() -> Vec<Seed> {
    let served: BTreeSet<(&str, &str)> = catalog::BUILT_IN
        .iter()
        .map(|kind| kind.declaration())
        .flat_map(|kind| kind.versions.iter().map(|version| (kind.group.as_ref(), version.as_ref())))
        .filter(|(group, _)| *group != OWN_GROUP)
        .collect();
    served
        .into_iter()
        .map(|(group, version)| Seed::new(&ApiService, "", api_service(group, version)))
        .collect()
}

fn api_service(group: &str, version: &str) -> Value {
    let priority =
        GROUPS.iter().find(|(name, _)| *name == group).map_or(OTHER_GROUP, |(_, priority)| *priority);
    let mut object = json!({
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": {
            "version": version,
            "groupPriorityMinimum": priority,
            "versionPriority": version_priority(group, version),
        },
    });
    if !group.is_empty() {
        object["spec"]["group"] = group.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_priority() {
        for kind in catalog::BUILT_IN {
            let group = kind.declaration().group.as_ref();
            assert!(group == OWN_GROUP || GROUPS.iter().any(|(name, _)| *name == group), "{group}");
        }
    }
}
