//! View of EndpointSlices: the addresses of a service, a hundred per slice.

use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Deserializer, Serialize};

use super::ObjectReference;

/// Label with the name of the slice's service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label with the controller that manages the slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of slices of headless services.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Index of slices by service, as `namespace/name`.
pub(crate) const SLICES_BY_SERVICE: &str = "service";

/// Informer of all slices, indexed by [`SLICES_BY_SERVICE`].
pub(crate) fn endpoint_slices(manager: &mut Manager) -> Informer<EndpointSlice> {
    let informer = manager.informer(Selection::of::<k8s_openapi::api::discovery::v1::EndpointSlice>());
    informer.store().add_index(SLICES_BY_SERVICE, |slice: &EndpointSlice| {
        let service = slice.metadata.labels.get(SERVICE_NAME);
        service.map(|service| format!("{}/{service}", slice.metadata.namespace())).into_iter().collect()
    });
    informer
}

/// View of a slice with all its fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) address_type: AddressType,
    #[serde(deserialize_with = "or_default")]
    pub(crate) endpoints: Box<[Endpoint]>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ports: Box<[EndpointPort]>,
}

/// Type of a slice's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum AddressType {
    #[default]
    IPv4,
    IPv6,
    /// Domain names, which no controller uses.
    #[serde(rename = "FQDN", other)]
    Fqdn,
}

impl AddressType {
    /// Name in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }
}

/// An endpoint, such as a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    pub(crate) addresses: Box<[Box<str>]>,
    pub(crate) conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_ref: Option<Box<ObjectReference>>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub(crate) deprecated_topology: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hints: Option<Box<EndpointHints>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating: Option<bool>,
}

/// Consumers that should prefer an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointHints {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) for_zones: Box<[Named]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) for_nodes: Box<[Named]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: Box<str>,
}

/// A port of all endpoints of a slice. The API server always sets name and protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPort {
    pub(crate) name: Box<str>,
    pub(crate) protocol: Box<str>,
    /// `None` for all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_protocol: Option<Box<str>>,
}

impl View for EndpointSlice {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl EndpointSlice {
    /// True if the controller of this name manages the slice.
    pub(crate) fn is_managed_by(&self, name: &str) -> bool {
        self.metadata.labels.get(MANAGED_BY) == Some(name)
    }
}

/// Accepts `null` for lists of a slice, because Go's structs always write them.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoint_slice_round_trips() {
        let endpoint = json!({
            "addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "hostname": "h", "targetRef": {"kind": "Pod", "namespace": "n", "name": "p", "uid": "u"},
            "nodeName": "n1", "zone": "a", "hints": {"forZones": [{"name": "a"}]},
        });
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "s", "labels": {MANAGED_BY: "me"}}, "addressType": "IPv6",
            "endpoints": [endpoint], "ports": null,
        }))
        .unwrap();
        assert_eq!(serde_json::to_value(&slice.endpoints[0]).unwrap(), endpoint);
        assert!(slice.is_managed_by("me") && slice.ports.is_empty());
        assert_eq!(slice.address_type, AddressType::IPv6);
        assert_eq!(serde_json::to_value(AddressType::IPv4).unwrap(), "IPv4");
    }
}
