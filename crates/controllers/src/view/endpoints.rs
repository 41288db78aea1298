//! View of Endpoints: all addresses of a service in one object, the API before EndpointSlices.

use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Serialize};

use super::ObjectReference;

/// Informer of all Endpoints.
pub(crate) fn endpoints(manager: &mut Manager) -> Informer<Endpoints> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::Endpoints>())
}

/// View of Endpoints with all their fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoints {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) subsets: Box<[EndpointSubset]>,
}

/// Addresses with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointSubset {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) ports: Box<[SubsetPort]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) addresses: Box<[EndpointAddress]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) not_ready_addresses: Box<[EndpointAddress]>,
}

/// An address. Ordered by IP, then by target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointAddress {
    pub(crate) ip: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_ref: Option<Box<ObjectReference>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) hostname: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<Box<str>>,
}

/// A port of all addresses of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SubsetPort {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: Box<str>,
    pub(crate) port: i32,
    pub(crate) protocol: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_protocol: Option<Box<str>>,
}

impl View for Endpoints {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}
