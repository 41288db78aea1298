//! What is served, told to clients: everything follows from the catalogue.

use std::collections::BTreeSet;

use coracle_meta::gvk::compare_versions;
use coracle_registry::{Declaration, Kind, Scope, catalog};
use serde_json::{Value, json};

/// The media type of the newer form, which tells everything at once.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn declarations() -> impl Iterator<Item = &'static Declaration> {
    catalog::BUILT_IN.iter().map(|kind: &&'static dyn Kind| kind.declaration())
}

/// The groups, in the order of the catalogue, without the core group.
fn groups() -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    declarations()
        .map(|declaration| &*declaration.group)
        .filter(|group| !group.is_empty() && seen.insert(*group))
        .collect()
}

/// Whether there is a group of this name.
pub(crate) fn serves_group(name: &str) -> bool {
    declarations().any(|declaration| declaration.group == name)
}

/// The versions of a group, the preferred one first.
fn versions(group: &str) -> Vec<&'static str> {
    let mut versions: Vec<&'static str> = declarations()
        .filter(|declaration| declaration.group == group)
        .flat_map(|declaration| declaration.versions.iter().map(|version| &**version))
        .collect();
    versions.sort_by(|a, b| compare_versions(b, a));
    versions.dedup();
    versions
}

/// Such as `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `/api` as older clients want it.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": versions(""), "serverAddressByClientCIDRs": []})
}

/// `/apis` as older clients want it.
pub(crate) fn group_list() -> Value {
    let groups: Vec<Value> = groups().into_iter().filter_map(bare_group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`; `None` if there is no such group.
pub(crate) fn group(name: &str) -> Option<Value> {
    let mut group = bare_group(name)?;
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

/// A group as an item of a list.
fn bare_group(name: &str) -> Option<Value> {
    let versions: Vec<Value> = versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": group_version(name, version), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

/// `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn resource_list(group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for declaration in served(group, version) {
        resources.push(resource(declaration));
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
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
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

/// All groups and versions, the core group first.
pub(crate) fn group_versions() -> Vec<(&'static str, &'static str)> {
    let all = std::iter::once("").chain(groups());
    all.flat_map(|group| versions(group).into_iter().map(move |version| (group, version))).collect()
}

/// The kinds of a group and version.
pub(crate) fn served<'a>(
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'static Declaration> + 'a {
    let of_version = move |declaration: &&'static Declaration| {
        declaration.group == group && declaration.versions.iter().any(|served| served == version)
    };
    declarations().filter(of_version)
}

fn resource(declaration: &Declaration) -> Value {
    let mut entry = json!({
        "name": declaration.plural,
        "singularName": declaration.singular,
        "namespaced": declaration.scope == Scope::Namespaced,
        "kind": declaration.kind,
        "verbs": declaration.verbs.names().collect::<Vec<_>>(),
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

/// `/api` or `/apis` in the newer form.
pub(crate) fn aggregated(core: bool) -> Value {
    let names = if core { vec![""] } else { groups() };
    let items: Vec<Value> = names.into_iter().map(aggregated_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_group(group: &str) -> Value {
    let versions: Vec<Value> = versions(group)
        .into_iter()
        .map(|version| {
            let mut resources: Vec<Value> = served(group, version).map(aggregated_resource).collect();
            resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(declaration: &Declaration) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": declaration.plural,
        // Group and version are told only of kinds that are from elsewhere.
        "responseKind": kind("", "", &declaration.kind),
        "scope": if declaration.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": declaration.singular,
        "verbs": declaration.verbs.names().collect::<Vec<_>>(),
    });
    let lists = [("shortNames", &declaration.short_names), ("categories", &declaration.categories)];
    for (name, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
        entry[name] = json!(values);
    }
    let subresources: Vec<Value> = declaration
        .subresources
        .iter()
        .map(|subresource| {
            let (group, version) = subresource.group_version.clone().unwrap_or_default();
            json!({
                "subresource": subresource.name,
                "responseKind": kind(&group, &version, &subresource.kind),
                "verbs": subresource.verbs.names().collect::<Vec<_>>(),
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_tell_the_same_resources() {
        let aggregated = aggregated(true);
        let newer = aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap();
        let older = resource_list("", "v1").unwrap();
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
        assert_eq!(group("nothing.example.com"), None);
        assert_eq!(resource_list("", "v9"), None);
    }
}
