//! What is served, told to clients: everything follows from the catalogue.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_registry::{Declaration, Kind, Scope};
use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::openapi::Document;

/// The media type of the newer form, which tells everything at once.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What is served beside the groups.
const OTHER_PATHS: &[&str] = &[
    "/api",
    "/apis",
    "/apis/",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/readyz",
    "/version",
];

/// Such as `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `/`: where else to ask, in the order of the paths.
pub(crate) fn index(catalogue: &Catalogue) -> Value {
    let mut paths: BTreeSet<String> = OTHER_PATHS.iter().map(|path| (*path).to_owned()).collect();
    for (group, version) in catalogue.group_versions() {
        let path = match group {
            "" => format!("/api/{version}"),
            group => {
                paths.insert(format!("/apis/{group}"));
                format!("/apis/{group}/{version}")
            }
        };
        paths.insert(path);
    }
    for (group, version) in catalogue.described_group_versions() {
        let below = if group.is_empty() { "api" } else { "apis/" };
        paths.insert(format!("/openapi/v3/{below}{group}/{version}"));
    }
    json!({"paths": paths})
}

/// `/api` as older clients want it.
pub(crate) fn core_versions(catalogue: &Catalogue) -> Value {
    json!({"kind": "APIVersions", "versions": catalogue.versions(""), "serverAddressByClientCIDRs": []})
}

/// `/apis` as older clients want it.
pub(crate) fn group_list(catalogue: &Catalogue) -> Value {
    let groups = catalogue.groups().into_iter();
    let groups: Vec<Value> = groups.filter_map(|group| bare_group(catalogue, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`; `None` if there is no such group.
pub(crate) fn group(catalogue: &Catalogue, name: &str) -> Option<Value> {
    let mut group = bare_group(catalogue, name)?;
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

/// A group as an item of a list.
fn bare_group(catalogue: &Catalogue, name: &str) -> Option<Value> {
    let versions: Vec<Value> = catalogue
        .versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": group_version(name, version), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

/// `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let mut served: Vec<&dyn Kind> = catalogue.served(group, version).collect();
    served.sort_by(|a, b| a.declaration().plural.cmp(&b.declaration().plural));
    for kind in served {
        let declaration = kind.declaration();
        resources.push(resource(kind));
        resources.extend(declaration.subresources.iter().map(|subresource| {
            let mut entry = json!({
                "name": format!("{}/{}", declaration.plural, subresource.name),
                "singularName": "",
                "namespaced": declaration.scope == Scope::Namespaced,
                "kind": subresource.kind,
                "verbs": subresource.verbs.names().collect::<Vec<_>>(),
            });
            if let Some((group, version)) = &subresource.group_version {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            entry
        }));
    }
    if resources.is_empty() {
        return None;
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": resources,
    });
    // Upstream leaves it out for the core group, which is older than it.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn resource(kind: &dyn Kind) -> Value {
    let declaration = kind.declaration();
    let mut entry = json!({
        "name": declaration.plural,
        "singularName": declaration.singular,
        "namespaced": declaration.scope == Scope::Namespaced,
        "kind": declaration.kind,
        "verbs": kind.told_verbs(),
    });
    let lists = [("shortNames", &declaration.short_names), ("categories", &declaration.categories)];
    for (name, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
        entry[name] = json!(values);
    }
    if !declaration.storage_version_hash.is_empty() {
        entry["storageVersionHash"] = json!(declaration.storage_version_hash);
    }
    entry
}

/// `/api` and `/apis` in the newer form where there are no custom kinds. Every client begins by asking for them.
static BUILT_IN_CORE: LazyLock<Document> = LazyLock::new(|| built_in_document(true));
static BUILT_IN_GROUPS: LazyLock<Document> = LazyLock::new(|| built_in_document(false));

fn built_in_document(core: bool) -> Document {
    Document::of(&aggregated(&Catalogue::built_in(), core))
}

/// `/api` or `/apis` in the newer form, ready to be told.
pub(crate) fn document(catalogue: &Catalogue, core: bool) -> Document {
    if core {
        // Custom kinds are never in that group.
        BUILT_IN_CORE.clone()
    } else if catalogue.is_built_in() {
        BUILT_IN_GROUPS.clone()
    } else {
        Document::of(&aggregated(catalogue, core))
    }
}

fn aggregated(catalogue: &Catalogue, core: bool) -> Value {
    let names = if core { vec![""] } else { catalogue.groups() };
    let items: Vec<Value> = names.into_iter().map(|group| aggregated_group(catalogue, group)).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_group(catalogue: &Catalogue, group: &str) -> Value {
    let versions: Vec<Value> = catalogue
        .versions(group)
        .into_iter()
        .map(|version| {
            if catalogue.is_remote(group, version) {
                // As kube-aggregator has a version whose server has never answered.
                return json!({"version": version, "freshness": "Stale"});
            }
            let served = catalogue.served(group, version);
            let mut resources: Vec<Value> = served.map(|kind| aggregated_resource(kind, version)).collect();
            resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &dyn Kind, version: &str) -> Value {
    let declaration = kind.declaration();
    let told =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    // Group and version are told only of kinds that are from elsewhere, and of those without a type.
    let (own_group, own_version) = match kind.type_id(version) {
        Some(_) => ("", ""),
        None => (&*declaration.group, version),
    };
    let mut entry = json!({
        "resource": declaration.plural,
        "responseKind": told(own_group, own_version, &declaration.kind),
        "scope": if declaration.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": declaration.singular,
        "verbs": kind.told_verbs(),
    });
    let lists = [("shortNames", &declaration.short_names), ("categories", &declaration.categories)];
    for (name, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
        entry[name] = json!(values);
    }
    let subresources = aggregated_subresources(declaration, (own_group, own_version));
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn aggregated_subresources(declaration: &Declaration, own: (&str, &str)) -> Vec<Value> {
    let told = |subresource: &coracle_registry::Subresource| {
        let other = subresource.group_version.as_ref();
        let (group, version) = other.map_or(own, |(group, version)| (&**group, &**version));
        json!({
            "subresource": subresource.name,
            "responseKind": {"group": group, "version": version, "kind": subresource.kind},
            "verbs": subresource.verbs.names().collect::<Vec<_>>(),
        })
    };
    declaration.subresources.iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_tell_the_same_resources() {
        let catalogue = Catalogue::built_in();
        let aggregated = aggregated(&catalogue, true);
        let newer = aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap();
        let older = resource_list(&catalogue, "", "v1").unwrap();
        let plain = |entry: &&Value| !entry["name"].as_str().unwrap().contains('/');
        let older: Vec<_> = older["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(plain)
            .map(|entry| entry["name"].clone())
            .collect();
        let newer: Vec<_> = newer.iter().map(|entry| entry["resource"].clone()).collect();
        assert_eq!(older, newer);
        assert!(older.contains(&json!("configmaps")));
    }

    #[test]
    fn what_is_not_served_is_not_told() {
        let catalogue = Catalogue::built_in();
        assert_eq!(group(&catalogue, "nothing.example.com"), None);
        assert_eq!(resource_list(&catalogue, "", "v9"), None);
    }
}
