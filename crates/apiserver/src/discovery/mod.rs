//! Discovery documents: the groups, versions and resources of the served kinds.

mod answer;
mod documents;

pub(crate) use answer::{answer, check_get};

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_registry::{Declaration, Kind, Scope, Subresource};

use crate::openapi::Document;
use crate::served_kinds::ServedKinds;
use documents::{
    ApiGroup, ApiGroupDiscovery, ApiGroupDiscoveryList, ApiGroupList, ApiResource, ApiResourceDiscovery,
    ApiResourceList, ApiSubresourceDiscovery, ApiVersionDiscovery, ApiVersions, GroupVersionForDiscovery,
    GroupVersionKind, Metadata, RootPaths, ServerAddressByClientCidr, VersionInfo,
};

/// The media type of aggregated discovery, which has all groups in one document.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Paths that are served beside the groups.
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

/// The release whose API is served.
pub(crate) const EMULATED_VERSION: &str = "1.36";

/// The oldest release that the server is compatible with.
pub(crate) const MIN_COMPATIBILITY_VERSION: &str = "1.35";

/// The clients that reach the server at its external address.
const ALL_CLIENTS: &str = "0.0.0.0/0";

/// Returns `GROUP/VERSION`, such as `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `/`: the sorted list of served paths.
pub(crate) fn index(served: &ServedKinds) -> RootPaths {
    let mut paths: BTreeSet<String> = OTHER_PATHS.iter().map(|path| (*path).to_owned()).collect();
    for (group, version) in served.group_versions() {
        let path = match group {
            "" => format!("/api/{version}"),
            group => {
                paths.insert(format!("/apis/{group}"));
                format!("/apis/{group}/{version}")
            }
        };
        paths.insert(path);
    }
    for (group, version) in served.described_group_versions() {
        let below = if group.is_empty() { "api" } else { "apis/" };
        paths.insert(format!("/openapi/v3/{below}{group}/{version}"));
    }
    RootPaths { paths: paths.into_iter().collect() }
}

/// `/version`, with the release that is served.
pub(crate) fn version(release: &str) -> VersionInfo {
    let parts = |version: &'static str| version.split_once('.').unwrap_or_default();
    let (major, minor) = parts(EMULATED_VERSION);
    let (min_compatibility_major, min_compatibility_minor) = parts(MIN_COMPATIBILITY_VERSION);
    VersionInfo {
        major,
        minor,
        emulation_major: major,
        emulation_minor: minor,
        min_compatibility_major,
        min_compatibility_minor,
        git_version: format!("{release}+coracle"),
        git_commit: "",
        git_tree_state: "",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "none",
        compiler: "rustc",
        platform: format!("{}/{}", std::env::consts::OS, go_architecture()),
    }
}

/// The architecture by its name in Go (`GOARCH`), which Kubernetes uses.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/api` without aggregation, for older clients, with the external address of the server if it has one.
pub(crate) fn core_versions<'a>(served: &'a ServedKinds, address: Option<&'a str>) -> ApiVersions<'a> {
    let of_all_clients =
        |server_address| ServerAddressByClientCidr { client_cidr: ALL_CLIENTS, server_address };
    ApiVersions {
        kind: "APIVersions",
        versions: served.versions(""),
        server_addresses: address.map(of_all_clients).into_iter().collect(),
    }
}

/// `/apis` without aggregation, for older clients.
pub(crate) fn group_list(served: &ServedKinds) -> ApiGroupList<'_> {
    let groups = served.groups().into_iter();
    let groups = groups.filter_map(|group| bare_group(served, group)).collect();
    ApiGroupList { kind: "APIGroupList", api_version: "v1", groups }
}

/// `/apis/GROUP`; `None` if there is no such group.
pub(crate) fn group<'a>(served: &'a ServedKinds, name: &'a str) -> Option<ApiGroup<'a>> {
    let group = bare_group(served, name)?;
    Some(ApiGroup { kind: "APIGroup", api_version: "v1", ..group })
}

/// Returns a group as an item of a list.
fn bare_group<'a>(served: &'a ServedKinds, name: &'a str) -> Option<ApiGroup<'a>> {
    let of_version =
        |version| GroupVersionForDiscovery { group_version: group_version(name, version), version };
    let versions: Vec<_> = served.versions(name).into_iter().map(of_version).collect();
    let preferred_version = versions.first()?.clone();
    Some(ApiGroup { kind: "", api_version: "", name, versions, preferred_version })
}

/// `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn resource_list<'a>(
    served: &'a ServedKinds,
    group: &'a str,
    version: &'a str,
) -> Option<ApiResourceList<'a>> {
    let mut resources = Vec::new();
    let mut served: Vec<&dyn Kind> = served.served(group, version).collect();
    served.sort_by(|a, b| a.declaration().plural.cmp(&b.declaration().plural));
    for kind in served {
        let declaration = kind.declaration();
        resources.push(resource(kind));
        resources.extend(declaration.subresources.iter().map(|part| subresource(declaration, part)));
    }
    if resources.is_empty() {
        return None;
    }
    // kube-apiserver omits `apiVersion` for the core group, which is older than the field.
    let api_version = if group.is_empty() { "" } else { "v1" };
    let group_version = group_version(group, version);
    Some(ApiResourceList { kind: "APIResourceList", api_version, group_version, resources })
}

fn resource(kind: &dyn Kind) -> ApiResource<'_> {
    let declaration = kind.declaration();
    ApiResource {
        name: Cow::Borrowed(&*declaration.plural),
        singular_name: &declaration.singular,
        namespaced: declaration.scope == Scope::Namespaced,
        group: "",
        version: "",
        kind: &declaration.kind,
        verbs: kind.told_verbs(),
        short_names: &declaration.short_names,
        categories: &declaration.categories,
        storage_version_hash: &declaration.storage_version_hash,
    }
}

fn subresource<'a>(declaration: &'a Declaration, part: &'a Subresource) -> ApiResource<'a> {
    let other = part.group_version.as_ref();
    let (group, version) = other.map_or(("", ""), |(group, version)| (&**group, &**version));
    ApiResource {
        name: Cow::Owned(format!("{}/{}", declaration.plural, part.name)),
        singular_name: "",
        namespaced: declaration.scope == Scope::Namespaced,
        group,
        version,
        kind: &part.kind,
        verbs: part.verbs.names().collect(),
        short_names: &[],
        categories: &[],
        storage_version_hash: "",
    }
}

/// Aggregated discovery of clusters without custom kinds. It is cached because every client requests it first.
static BUILT_IN_CORE: LazyLock<Document> = LazyLock::new(|| built_in_document(true));
static BUILT_IN_GROUPS: LazyLock<Document> = LazyLock::new(|| built_in_document(false));

fn built_in_document(core: bool) -> Document {
    Document::of(&aggregated(&ServedKinds::built_in(), core))
}

/// Returns the serialized document of aggregated discovery for `/api` or `/apis`.
pub(crate) fn document(served: &ServedKinds, core: bool) -> Document {
    if core {
        // The core group never contains custom kinds.
        BUILT_IN_CORE.clone()
    } else if served.is_built_in() {
        BUILT_IN_GROUPS.clone()
    } else {
        Document::of(&aggregated(served, core))
    }
}

fn aggregated(served: &ServedKinds, core: bool) -> ApiGroupDiscoveryList<'_> {
    let names = if core { vec![""] } else { served.groups() };
    ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: "" },
        items: names.into_iter().map(|group| aggregated_group(served, group)).collect(),
    }
}

fn aggregated_group<'a>(served: &'a ServedKinds, group: &'a str) -> ApiGroupDiscovery<'a> {
    let of_version = |version| {
        if served.is_remote(group, version) {
            // kube-aggregator reports a version the same way if its API server has never responded.
            return ApiVersionDiscovery { version, resources: None, freshness: "Stale" };
        }
        let served = served.served(group, version);
        let mut resources: Vec<_> = served.map(|kind| aggregated_resource(kind, version)).collect();
        resources.sort_by(|a, b| a.resource.cmp(b.resource));
        ApiVersionDiscovery { version, resources: Some(resources), freshness: "Current" }
    };
    let versions = served.versions(group).into_iter().map(of_version).collect();
    ApiGroupDiscovery { metadata: Metadata { name: group }, versions }
}

fn aggregated_resource<'a>(kind: &'a dyn Kind, version: &'a str) -> ApiResourceDiscovery<'a> {
    let declaration = kind.declaration();
    // Group and version are set only for kinds without a built-in type, such as custom kinds.
    let (group, version) = match kind.type_id(version) {
        Some(_) => ("", ""),
        None => (&*declaration.group, version),
    };
    ApiResourceDiscovery {
        resource: &declaration.plural,
        response_kind: GroupVersionKind { group, version, kind: &declaration.kind },
        scope: if declaration.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &declaration.singular,
        verbs: kind.told_verbs(),
        short_names: &declaration.short_names,
        categories: &declaration.categories,
        subresources: aggregated_subresources(declaration, (group, version)),
    }
}

fn aggregated_subresources<'a>(
    declaration: &'a Declaration,
    own: (&'a str, &'a str),
) -> Vec<ApiSubresourceDiscovery<'a>> {
    let of_part = |part: &'a Subresource| {
        let other = part.group_version.as_ref();
        let (group, version) = other.map_or(own, |(group, version)| (&**group, &**version));
        ApiSubresourceDiscovery {
            subresource: &part.name,
            response_kind: GroupVersionKind { group, version, kind: &part.kind },
            verbs: part.verbs.names().collect(),
        }
    };
    declaration.subresources.iter().map(of_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &impl serde::Serialize) -> String {
        serde_json::to_string(document).unwrap()
    }

    #[test]
    fn aggregated_and_legacy_discovery_have_the_same_resources() {
        let served = ServedKinds::built_in();
        let newer = aggregated(&served, true);
        let older = resource_list(&served, "", "v1").unwrap();
        let older: Vec<&str> =
            older.resources.iter().map(|entry| &*entry.name).filter(|name| !name.contains('/')).collect();
        let newer = newer.items[0].versions[0].resources.as_ref().unwrap();
        let newer: Vec<&str> = newer.iter().map(|entry| entry.resource).collect();
        assert_eq!(older, newer);
        assert!(older.contains(&"configmaps"));
    }

    #[test]
    fn address_of_the_server_is_announced_to_all_clients() {
        let served = ServedKinds::built_in();
        let address =
            r#""serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"192.0.2.1:6443"}]"#;
        assert!(text(&core_versions(&served, Some("192.0.2.1:6443"))).contains(address));
        assert!(text(&core_versions(&served, None)).contains(r#""serverAddressByClientCIDRs":[]"#));
    }

    #[test]
    fn unserved_groups_and_versions_have_no_document() {
        let served = ServedKinds::built_in();
        assert!(group(&served, "nothing.example.com").is_none());
        assert!(resource_list(&served, "", "v9").is_none());
    }

    #[test]
    fn fields_are_in_the_order_of_the_go_types() {
        let served = ServedKinds::built_in();
        let core = text(&resource_list(&served, "", "v1").unwrap());
        assert!(
            core.starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"#),
            "{core}"
        );
        let config_maps = r#"{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["cm"],"storageVersionHash":"qFsyl6wFWjQ="}"#;
        assert!(core.contains(config_maps), "{core}");
        let eviction = r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#;
        assert!(core.contains(eviction), "{core}");
        let apps = text(&resource_list(&served, "apps", "v1").unwrap());
        assert!(
            apps.starts_with(r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1""#),
            "{apps}"
        );
        let batch = r#"{"kind":"APIGroup","apiVersion":"v1","name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}],"preferredVersion":{"groupVersion":"batch/v1","version":"v1"}}"#;
        assert_eq!(text(&group(&served, "batch").unwrap()), batch);
        let newer = text(&aggregated(&served, true));
        let config_maps = r#"{"resource":"configmaps","responseKind":{"group":"","version":"","kind":"ConfigMap"},"scope":"Namespaced","singularResource":"configmap","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["cm"]}"#;
        assert!(newer.contains(config_maps), "{newer}");
        let version = text(&version("v1.36.4"));
        assert!(version.starts_with(r#"{"major":"1","minor":"36","emulationMajor":"1""#), "{version}");
    }
}
