//! The documents of discovery, with their fields in the order of Kubernetes' Go types (`meta/v1`, `apidiscovery/v2` and
//! `version`). Clients parse JSON, but suites and scripts match its text.

use std::borrow::Cow;

use serde::Serialize;

/// `/`.
#[derive(Serialize)]
pub(crate) struct RootPaths {
    pub(super) paths: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiVersions<'a> {
    pub(super) kind: &'static str,
    pub(super) versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(super) server_addresses: Vec<ServerAddressByClientCidr<'a>>,
}

#[derive(Serialize)]
pub(super) struct ServerAddressByClientCidr<'a> {
    #[serde(rename = "clientCIDR")]
    pub(super) client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    pub(super) server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroupList<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) groups: Vec<ApiGroup<'a>>,
}

/// An APIGroup. `kind` is omitted in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) api_version: &'static str,
    pub(super) name: &'a str,
    pub(super) versions: Vec<GroupVersionForDiscovery<'a>>,
    pub(super) preferred_version: GroupVersionForDiscovery<'a>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupVersionForDiscovery<'a> {
    pub(super) group_version: String,
    pub(super) version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResourceList<'a> {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) api_version: &'static str,
    pub(super) group_version: String,
    pub(super) resources: Vec<ApiResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) singular_name: &'a str,
    pub(super) namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
    pub(super) verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) short_names: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) categories: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) storage_version_hash: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) metadata: Metadata<'a>,
    pub(super) items: Vec<ApiGroupDiscovery<'a>>,
}

#[derive(Serialize)]
pub(super) struct ApiGroupDiscovery<'a> {
    pub(super) metadata: Metadata<'a>,
    pub(super) versions: Vec<ApiVersionDiscovery<'a>>,
}

#[derive(Serialize)]
pub(super) struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) name: &'a str,
}

#[derive(Serialize)]
pub(super) struct ApiVersionDiscovery<'a> {
    pub(super) version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Vec<ApiResourceDiscovery<'a>>>,
    pub(super) freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceDiscovery<'a> {
    pub(super) resource: &'a str,
    pub(super) response_kind: GroupVersionKind<'a>,
    pub(super) scope: &'static str,
    pub(super) singular_resource: &'a str,
    pub(super) verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) short_names: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) categories: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<ApiSubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiSubresourceDiscovery<'a> {
    pub(super) subresource: &'a str,
    pub(super) response_kind: GroupVersionKind<'a>,
    pub(super) verbs: Vec<&'static str>,
}

#[derive(Serialize)]
pub(super) struct GroupVersionKind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

/// `/version`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionInfo {
    pub(super) major: &'static str,
    pub(super) minor: &'static str,
    pub(super) emulation_major: &'static str,
    pub(super) emulation_minor: &'static str,
    pub(super) min_compatibility_major: &'static str,
    pub(super) min_compatibility_minor: &'static str,
    pub(super) git_version: String,
    pub(super) git_commit: &'static str,
    pub(super) git_tree_state: &'static str,
    pub(super) build_date: &'static str,
    pub(super) go_version: &'static str,
    pub(super) compiler: &'static str,
    pub(super) platform: String,
}
