//! Plans the slices that mirror Endpoints. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_meta::name::parse_ip_sloppy;
use coracle_runtime::informer::Labels;

use super::CONTROLLER;
use crate::endpoints::repack;
use crate::endpointslice::{
    Draft, EndpointKey, EndpointSet, PortKey, SliceChanges, equal_except_hints, labels_with, port_key,
    type_of,
};
use crate::service_pods::TRIGGER_TIME_ANNOTATION;
use crate::view::{
    AddressType, Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, EndpointSubset,
    Endpoints, MANAGED_BY, SERVICE_NAME, Service, SubsetPort,
};

/// Maximum number of addresses mirrored per subset (`--mirroring-max-endpoints-per-subset` in Kubernetes).
pub(super) const MAX_PER_SUBSET: usize = 1000;

/// Label that excludes Endpoints from mirroring.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that old clients use for leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation of `kubectl apply`, which applies to the Endpoints only.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Steps to take.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: SliceChanges,
    /// True if the Endpoints are mirrored.
    pub(super) is_mirrored: bool,
    /// Number of invalid addresses.
    pub(super) invalid: usize,
    /// Number of skipped addresses, including the invalid ones.
    pub(super) skipped: usize,
}

/// True if Endpoints may be mirrored, regardless of their service.
pub(super) fn may_mirror(endpoints: &Endpoints) -> bool {
    let metadata = &endpoints.metadata;
    metadata.labels.get(SKIP_MIRROR) != Some("true") && !metadata.annotations.contains_key(LEADER)
}

/// Plans for Endpoints and the service with the same name.
pub(super) fn plan(
    endpoints: Option<&Endpoints>,
    service: Option<&Service>,
    existing: Vec<Arc<EndpointSlice>>,
) -> Plan {
    let wanted = service.is_some_and(|service| service.spec.selector.is_empty());
    match endpoints.filter(|endpoints| wanted && may_mirror(endpoints)) {
        Some(endpoints) => mirror(endpoints, existing),
        None => {
            let delete = existing.into_iter().filter(|slice| !slice.metadata.is_terminating()).collect();
            Plan { changes: SliceChanges { delete, ..SliceChanges::default() }, ..Plan::default() }
        }
    }
}

/// Key of a slice: each holds the addresses of one type from one subset.
type SliceKey = (AddressType, PortKey);

/// Ports and endpoints of the desired slices.
type Wanted = BTreeMap<SliceKey, (Vec<EndpointPort>, EndpointSet)>;

fn mirror(endpoints: &Endpoints, existing: Vec<Arc<EndpointSlice>>) -> Plan {
    let (mut plan, mut wanted) = (Plan { is_mirrored: true, ..Plan::default() }, Wanted::new());
    for subset in repack(&endpoints.subsets) {
        add_subset(&subset, &mut wanted, &mut plan);
    }
    let mut by_key: BTreeMap<SliceKey, Vec<_>> = BTreeMap::new();
    for slice in existing.into_iter().filter(|slice| !slice.metadata.is_terminating()) {
        by_key.entry((slice.address_type, port_key(&slice.ports))).or_default().push(slice);
    }
    let (labels, annotations) = (mirrored_labels(endpoints), mirrored_annotations(endpoints));
    for (key, (ports, set)) in wanted {
        let mut known = by_key.remove(&key).unwrap_or_default().into_iter();
        let first = known.next();
        plan.changes.delete.extend(known);
        if first.as_ref().is_some_and(|slice| is_right(slice, endpoints, &set, &labels, &annotations)) {
            continue;
        }
        let draft = Draft {
            labels: labels.clone(),
            annotations: annotations.clone(),
            address_type: key.0,
            ports,
            endpoints: set.into_values().collect(),
            existing: first,
        };
        let written =
            if draft.existing.is_some() { &mut plan.changes.update } else { &mut plan.changes.create };
        written.push(draft);
    }
    plan.changes.delete.extend(by_key.into_values().flatten());
    plan.changes.recycle(|_| true);
    if endpoints.metadata.is_terminating() {
        plan.changes.create.clear();
    }
    plan
}

fn add_subset(subset: &EndpointSubset, wanted: &mut Wanted, plan: &mut Plan) {
    let ports: Vec<_> = subset.ports.iter().map(mirrored_port).collect();
    let ready = subset.addresses.iter().map(|address| (address, true));
    let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
    let mut added = 0;
    for (address, ready) in all {
        if added == MAX_PER_SUBSET {
            plan.skipped += 1;
            continue;
        }
        let Some((address_type, endpoint)) = mirrored_address(address, ready) else {
            plan.invalid += 1;
            plan.skipped += 1;
            continue;
        };
        added += 1;
        let (_, set) = wanted
            .entry((address_type, port_key(&ports)))
            .or_insert_with(|| (ports.clone(), EndpointSet::new()));
        set.insert(EndpointKey::of(&endpoint), endpoint);
    }
}

fn mirrored_port(port: &SubsetPort) -> EndpointPort {
    EndpointPort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

fn mirrored_address(address: &EndpointAddress, ready: bool) -> Option<(AddressType, Endpoint)> {
    let ip = parse_ip_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: Box::new([ip.to_string().into()]),
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        hostname: Some(address.hostname.clone()).filter(|hostname| !hostname.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((type_of(&ip), endpoint))
}

/// True if the slice is up to date.
fn is_right(
    slice: &EndpointSlice,
    endpoints: &Endpoints,
    wanted: &EndpointSet,
    labels: &Labels,
    annotations: &Labels,
) -> bool {
    let same = |endpoint: &Endpoint| {
        wanted.get(&EndpointKey::of(endpoint)).is_some_and(|other| equal_except_hints(other, endpoint))
    };
    let metadata = &slice.metadata;
    slice.endpoints.len() == wanted.len()
        && slice.endpoints.iter().all(same)
        && metadata.labels == *labels
        && metadata.annotations == *annotations
        && metadata.owner_references.iter().any(|owner| *owner.uid == *endpoints.metadata.uid())
}

fn mirrored_labels(endpoints: &Endpoints) -> Labels {
    let metadata = &endpoints.metadata;
    labels_with(&metadata.labels, [(SERVICE_NAME, Some(metadata.name())), (MANAGED_BY, Some(CONTROLLER))])
}

fn mirrored_annotations(endpoints: &Endpoints) -> Labels {
    labels_with(&endpoints.metadata.annotations, [(TRIGGER_TIME_ANNOTATION, None), (LAST_APPLIED, None)])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints() -> Value {
        json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "labels": {"app": "x"},
                "annotations": {"a": "b", LAST_APPLIED: "{}", TRIGGER_TIME_ANNOTATION: "then"}},
            "subsets": [{"addresses": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}],
                "notReadyAddresses": [{"ip": "10.1.2.4", "hostname": "h", "nodeName": "n1"}],
                "ports": [{"port": 80, "protocol": "TCP"}]}],
        })
    }

    fn planned(endpoints: Option<&Value>, service: Option<Value>, slices: &[Value]) -> Plan {
        fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
            serde_json::from_value(value.clone()).unwrap()
        }
        let slices = slices.iter().map(|slice| Arc::new(read(slice))).collect();
        plan(endpoints.map(read).as_ref(), service.as_ref().map(read).as_ref(), slices)
    }

    fn mirrored(endpoints: &Value, slices: &[Value]) -> Plan {
        planned(Some(endpoints), Some(json!({"metadata": {"name": "s"}})), slices)
    }

    fn stored(draft: &Draft) -> Value {
        json!({
            "metadata": {"name": "s-1", "labels": draft.labels, "annotations": draft.annotations,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "s", "uid": "u"}]},
            "addressType": draft.address_type, "endpoints": draft.endpoints, "ports": draft.ports,
        })
    }

    fn counts(plan: &Plan) -> [usize; 3] {
        [plan.changes.create.len(), plan.changes.update.len(), plan.changes.delete.len()]
    }

    #[test]
    fn each_subset_has_a_slice_per_ip_family() {
        let plan = mirrored(&endpoints(), &[]);
        assert_eq!(counts(&plan), [2, 0, 0]);
        let slices: Vec<_> = plan.changes.create.iter().map(stored).collect();
        assert_eq!(
            slices[0]["endpoints"],
            json!([
                {"addresses": ["10.1.2.3"], "conditions": {"ready": true}},
                {"addresses": ["10.1.2.4"], "conditions": {"ready": false}, "hostname": "h", "nodeName": "n1"},
            ])
        );
        assert_eq!(slices[0]["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
        assert_eq!(slices[1]["endpoints"][0]["addresses"], json!(["fd00::1"]));
        let labels = json!({"app": "x", SERVICE_NAME: "s", MANAGED_BY: CONTROLLER});
        assert_eq!(slices[0]["metadata"]["labels"], labels);
        assert_eq!(slices[0]["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(counts(&mirrored(&endpoints(), &slices)), [0, 0, 0]);
    }

    #[test]
    fn changes_update_the_existing_slice() {
        let slices: Vec<_> = mirrored(&endpoints(), &[]).changes.create.iter().map(stored).collect();
        let cases = [
            ("/subsets/0/addresses/0/ip", json!("10.9.9.9"), [0, 1, 0]),
            ("/subsets/0/addresses", json!([{"ip": "10.1.2.3"}]), [0, 0, 1]),
            ("/subsets/0/ports/0/port", json!(81), [0, 2, 0]),
            ("/metadata/labels", json!({}), [0, 2, 0]),
            ("/metadata/annotations", json!({}), [0, 2, 0]),
            ("/metadata/uid", json!("v"), [0, 2, 0]),
            ("/subsets", json!([]), [0, 0, 2]),
        ];
        for (path, value, expected) in cases {
            let mut changed = endpoints();
            *changed.pointer_mut(path).unwrap() = value;
            assert_eq!(counts(&mirrored(&changed, &slices)), expected, "{path}");
        }
    }

    #[test]
    fn excluded_endpoints_have_no_slices() {
        let slices: Vec<_> = mirrored(&endpoints(), &[]).changes.create.iter().map(stored).collect();
        let service = || Some(json!({"metadata": {"name": "s"}}));
        let selecting = Some(json!({"spec": {"selector": {"app": "x"}}}));
        let mut skipped = endpoints();
        skipped["metadata"]["labels"][SKIP_MIRROR] = "true".into();
        let mut leader = endpoints();
        leader["metadata"]["annotations"][LEADER] = "{}".into();
        for (endpoints, service) in [
            (None, service()),
            (Some(&endpoints()), None),
            (Some(&endpoints()), selecting),
            (Some(&skipped), service()),
            (Some(&leader), service()),
        ] {
            assert_eq!(counts(&planned(endpoints, service, &slices)), [0, 0, 2]);
        }
    }

    #[test]
    fn skipped_addresses_are_counted() {
        let mut many = endpoints();
        many["subsets"][0]["addresses"] =
            (0..1001).map(|i| json!({"ip": format!("10.0.{}.{}", i / 256, i % 256)})).collect();
        let plan = mirrored(&many, &[]);
        assert_eq!((plan.invalid, plan.skipped), (0, 2));
        assert_eq!(plan.changes.create[0].endpoints.len(), MAX_PER_SUBSET);
        let mut wrong = endpoints();
        wrong["subsets"][0]["addresses"][0]["ip"] = "example.org".into();
        let plan = mirrored(&wrong, &[]);
        assert_eq!((plan.invalid, plan.skipped), (1, 1));
    }
}
