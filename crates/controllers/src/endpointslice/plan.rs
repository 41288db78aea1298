//! Plans the slices of a service. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_runtime::EventType;
use coracle_runtime::informer::Labels;

use super::CONTROLLER;
use super::backends::{PortKey, address_types, backends, port_key};
use super::hints::{Preference, hint};
use super::pack::{Form, Packed, pack};
use super::slices::{SliceChanges, labels_with};
use super::topology;
use crate::service_pods::TRIGGER_TIME_ANNOTATION;
use crate::view::{
    AddressType, EndpointSlice, HEADLESS, MANAGED_BY, Node, Pod, SERVICE_NAME, Service, rfc3339,
};

/// Input of the plan.
pub(super) struct Input<'a> {
    pub(super) service: &'a Service,
    /// Pods that the service selects.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) node_of: &'a dyn Fn(&str) -> Option<Arc<Node>>,
    /// Slices of the service that this controller manages.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// Time of the oldest change that the slices may not reflect yet.
    pub(super) trigger_time: Option<Timestamp>,
    /// Computes each zone's share of the cluster's allocatable CPU.
    pub(super) zone_shares: &'a dyn Fn() -> Option<BTreeMap<Box<str>, f64>>,
    /// True if the service had topology hints at its last sync.
    pub(super) had_topology_hints: bool,
}

/// Steps to take.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: SliceChanges,
    /// Pods that are omitted because their node is unknown, as names of pod and node.
    pub(super) without_node: Vec<(Box<str>, Box<str>)>,
    /// True if the service has topology hints.
    pub(super) has_topology_hints: bool,
    /// Events about topology hints: type, reason and message.
    pub(super) events: Vec<(EventType, &'static str, String)>,
}

pub(super) fn plan(input: Input<'_>) -> Plan {
    let (mut plan, labels) = (Plan::default(), slice_labels(input.service));
    let mut by_type: BTreeMap<AddressType, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in input.slices.iter().filter(|slice| !slice.metadata.is_terminating()) {
        by_type.entry(slice.address_type).or_default().push(Arc::clone(slice));
    }
    for address_type in address_types(input.service) {
        let existing = by_type.remove(&address_type).unwrap_or_default();
        plan_type(&input, Form { labels: &labels, address_type }, existing, &mut plan);
    }
    // Slices of address types that the service no longer has.
    plan.changes.delete.extend(by_type.into_values().flatten());
    // The garbage collector deletes the slices of a service, and would race with new ones.
    if input.service.metadata.is_terminating() {
        plan.changes.create.clear();
    }
    let trigger_time = input.trigger_time.map(rfc3339);
    for draft in plan.changes.create.iter_mut().chain(&mut plan.changes.update) {
        draft.annotations =
            labels_with(&draft.annotations, [(TRIGGER_TIME_ANNOTATION, trigger_time.as_deref())]);
    }
    plan
}

/// Plans the slices of one address type.
fn plan_type(input: &Input<'_>, form: Form<'_>, existing: Vec<Arc<EndpointSlice>>, plan: &mut Plan) {
    let service = input.service;
    let (mut delete, mut by_ports) = (Vec::new(), BTreeMap::<PortKey, Vec<_>>::new());
    for slice in existing {
        if is_owned(&slice, service) {
            by_ports.entry(port_key(&slice.ports)).or_default().push(slice);
        } else {
            delete.push(slice);
        }
    }
    let backends = backends(service, input.pods, input.node_of, form.address_type);
    let mut packed = Packed::default();
    for (ports, group) in backends.groups {
        let more = pack(form, by_ports.remove(&ports).unwrap_or_default(), group);
        packed.kept.extend(more.kept);
        packed.changed.extend(more.changed);
        packed.created.extend(more.created);
        delete.extend(more.emptied);
    }
    delete.extend(by_ports.into_values().flatten());
    if packed.kept.is_empty() && packed.changed.is_empty() && packed.created.is_empty() {
        add_placeholder(form, service, &mut delete, &mut packed);
    }
    set_hints(input, form.address_type, &mut packed, plan);
    let mut changes = SliceChanges { create: packed.created, update: packed.changed, delete };
    changes.recycle(|slice| is_owned(slice, service));
    plan.changes.create.extend(changes.create);
    plan.changes.update.extend(changes.update);
    plan.changes.delete.extend(changes.delete);
    for pod in backends.without_node {
        if !plan.without_node.contains(&pod) {
            plan.without_node.push(pod);
        }
    }
}

/// Sets the hints of endpoints.
fn set_hints(input: &Input<'_>, address_type: AddressType, packed: &mut Packed, plan: &mut Plan) {
    let about = |text: &str| format!("{text}, addressType: {}", address_type.as_str());
    let disabled = "TopologyAwareHintsDisabled";
    if !topology::is_wanted(input.service) {
        if input.had_topology_hints {
            let message = about("Topology Aware Hints has been disabled");
            plan.events.push((EventType::Warning, disabled, message));
        }
        return hint(Preference::of(input.service), packed);
    }
    match topology::hint((input.zone_shares)().as_ref(), packed) {
        Ok(()) => {
            if !input.had_topology_hints && !plan.has_topology_hints {
                let message = about("Topology Aware Hints has been enabled");
                plan.events.push((EventType::Normal, "TopologyAwareHintsEnabled", message));
            }
            plan.has_topology_hints = true;
        }
        Err(why) => {
            plan.events.push((EventType::Warning, disabled, about(&why)));
            hint(Preference::Anywhere, packed);
        }
    }
}

/// A service without endpoints has one empty slice.
fn add_placeholder(
    form: Form<'_>,
    service: &Service,
    delete: &mut Vec<Arc<EndpointSlice>>,
    packed: &mut Packed,
) {
    let holds = |slice: &EndpointSlice| {
        is_owned(slice, service)
            && slice.ports.is_empty()
            && slice.endpoints.is_empty()
            && slice.metadata.labels == *form.labels
    };
    match delete.as_slice() {
        [only] if holds(only) => packed.kept.push(form.draft(delete.pop())),
        _ => packed.created.push(form.draft(None)),
    }
}

fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice.metadata.owner_references.iter().any(|owner| {
        *owner.uid == *service.metadata.uid() && &*owner.kind == "Service" && &*owner.api_version == "v1"
    })
}

/// Labels of the service, and those that identify its slices.
fn slice_labels(service: &Service) -> Labels {
    let headless = (!service.has_cluster_ip()).then_some("");
    labels_with(
        &service.metadata.labels,
        [(HEADLESS, headless), (SERVICE_NAME, Some(service.metadata.name())), (MANAGED_BY, Some(CONTROLLER))],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::slices::Draft;
    use super::*;

    fn service() -> Value {
        json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "labels": {"app": "x", HEADLESS: "no"}},
            "spec": {"clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "x"},
                "ports": [{"name": "web", "protocol": "TCP", "port": 80, "targetPort": 8080}]},
        })
    }

    fn pod(name: &str, ip: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"nodeName": "n1"},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn planned(service: &Value, pods: &[Value], slices: &[Value]) -> SliceChanges {
        whole_plan(service, pods, slices).changes
    }

    fn whole_plan(service: &Value, pods: &[Value], slices: &[Value]) -> Plan {
        fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Arc<T> {
            Arc::new(serde_json::from_value(value.clone()).unwrap())
        }
        let labels = json!({"topology.kubernetes.io/zone": "a"});
        let node = read::<Node>(&json!({"metadata": {"name": "n1", "labels": labels}}));
        let service = read::<Service>(service);
        plan(Input {
            service: &service,
            pods: &pods.iter().map(read).collect::<Vec<_>>(),
            node_of: &|_| Some(Arc::clone(&node)),
            slices: slices.iter().map(read).collect(),
            trigger_time: Some(Timestamp::from_millis(1000)),
            zone_shares: &|| Some([("a".into(), 0.5), ("b".into(), 0.5)].into()),
            had_topology_hints: false,
        })
    }

    /// The stored object of a draft.
    fn stored(draft: &Draft) -> Value {
        let name = draft.existing.as_ref().map_or("s-1", |slice| slice.metadata.name()).to_owned();
        let owner =
            json!({"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u", "controller": true});
        json!({
            "metadata": {"name": name, "labels": draft.labels, "annotations": draft.annotations,
                "ownerReferences": [owner]},
            "addressType": draft.address_type, "endpoints": draft.endpoints, "ports": draft.ports,
        })
    }

    fn counts(changes: &SliceChanges) -> [usize; 3] {
        [changes.create.len(), changes.update.len(), changes.delete.len()]
    }

    #[test]
    fn service_without_pods_has_an_empty_slice() {
        let changes = planned(&service(), &[], &[]);
        assert_eq!(counts(&changes), [1, 0, 0]);
        let slice = stored(&changes.create[0]);
        let labels = json!({"app": "x", SERVICE_NAME: "s", MANAGED_BY: CONTROLLER});
        assert_eq!(slice["metadata"]["labels"], labels);
        assert_eq!(slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION], "1970-01-01T00:00:01Z");
        assert_eq!((&slice["endpoints"], &slice["ports"]), (&json!([]), &json!([])));
        assert_eq!(counts(&planned(&service(), &[], &[slice])), [0, 0, 0]);
    }

    #[test]
    fn empty_slice_is_filled_and_emptied_in_place() {
        let empty = stored(&planned(&service(), &[], &[]).create[0]);
        let changes = planned(&service(), &[pod("p", "10.0.0.1")], &[empty]);
        assert_eq!(counts(&changes), [0, 1, 0]);
        let filled = stored(&changes.update[0]);
        assert_eq!(filled["ports"][0]["port"], 8080);
        let pods = [pod("p", "10.0.0.1")];
        assert_eq!(counts(&planned(&service(), &pods, std::slice::from_ref(&filled))), [0, 0, 0]);
        let changes = planned(&service(), &[], &[filled]);
        assert_eq!(counts(&changes), [0, 1, 0]);
        assert_eq!(stored(&changes.update[0])["ports"], json!([]));
    }

    #[test]
    fn pods_with_different_ports_are_in_different_slices() {
        let mut service = service();
        service["spec"]["ports"][0]["targetPort"] = "web".into();
        let with_port = |name: &str, ip: &str, port: u16| {
            let mut pod = pod(name, ip);
            let port = json!({"name": "web", "protocol": "TCP", "containerPort": port});
            pod["spec"]["containers"] = json!([{"name": "c", "ports": [port]}]);
            pod
        };
        let pods =
            [with_port("a", "10.0.0.1", 1), with_port("b", "10.0.0.2", 2), with_port("c", "10.0.0.3", 1)];
        let changes = planned(&service, &pods, &[]);
        let sizes: Vec<_> = changes.create.iter().map(|draft| draft.endpoints.len()).collect();
        assert_eq!(sizes, [2, 1]);
    }

    #[test]
    fn slices_of_a_former_service_are_deleted() {
        let mut foreign = stored(&planned(&service(), &[], &[]).create[0]);
        foreign["metadata"]["ownerReferences"][0]["uid"] = "v".into();
        assert_eq!(counts(&planned(&service(), &[], &[foreign])), [1, 0, 1]);
    }

    #[test]
    fn slices_of_a_removed_ip_family_are_deleted() {
        let mut dual = service();
        dual["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
        let both = planned(&dual, &[], &[]);
        assert_eq!(counts(&both), [2, 0, 0]);
        let slices: Vec<_> = both.create.iter().map(stored).collect();
        assert_eq!(counts(&planned(&service(), &[], &slices)), [0, 0, 1]);
    }

    #[test]
    fn terminating_service_gets_no_new_slices() {
        let mut service = service();
        service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(counts(&planned(&service, &[pod("p", "10.0.0.1")], &[])), [0, 0, 0]);
    }

    #[test]
    fn terminating_slice_is_ignored() {
        let mut slice = stored(&planned(&service(), &[], &[]).create[0]);
        slice["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(counts(&planned(&service(), &[], &[slice])), [1, 0, 0]);
    }

    #[test]
    fn headless_services_label_their_slices() {
        let mut service = service();
        service["spec"]["clusterIP"] = "None".into();
        service["spec"]["ports"] = json!([]);
        let changes = planned(&service, &[pod("p", "10.0.0.1")], &[]);
        assert_eq!(changes.create[0].labels.get(HEADLESS), Some(""));
        assert_eq!((changes.create[0].ports.len(), changes.create[0].endpoints.len()), (0, 1));
    }

    #[test]
    fn topology_mode_sets_zone_hints() {
        let mut service = service();
        service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
        let pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2")];
        let plan = whole_plan(&service, &pods, &[]);
        let zones: Vec<_> = plan.changes.create[0]
            .endpoints
            .iter()
            .map(|endpoint| &*endpoint.hints.as_ref().unwrap().for_zones[0].name)
            .collect();
        assert_eq!(zones, ["b", "a"], "all endpoints are in one zone");
        let message = "Topology Aware Hints has been enabled, addressType: IPv4".to_owned();
        assert_eq!(plan.events, [(EventType::Normal, "TopologyAwareHintsEnabled", message)]);
        let plan = whole_plan(&service, &pods[..1], &[]);
        assert_eq!(plan.changes.create[0].endpoints[0].hints, None);
        assert_eq!(plan.events[0].1, "TopologyAwareHintsDisabled");
    }
}
