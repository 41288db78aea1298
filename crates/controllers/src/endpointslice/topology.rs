//! Topology hints for services annotated with `service.kubernetes.io/topology-mode: Auto`: each zone gets endpoints
//! in proportion to its share of the cluster's CPU, those in the zone first.
//!
//! If that would overload an endpoint by more than a fifth, no hints are set, and an event reports why.

use std::collections::BTreeMap;

use coracle_meta::quantity::Quantity;

use super::backends::zone;
use super::pack::Packed;
use super::slices::Draft;
use crate::view::{Endpoint, EndpointHints, Named, Node, Service};

/// Maximum overload of an endpoint.
const OVERLOAD: f64 = 0.2;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The older name of the annotation, which takes precedence.
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Labels of control plane nodes, which do not count.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// True if the service enables topology hints, which take precedence over its traffic distribution.
pub(super) fn is_wanted(service: &Service) -> bool {
    let annotation = |key| service.metadata.annotations.get(key);
    matches!(annotation(TOPOLOGY_AWARE_HINTS).or_else(|| annotation(TOPOLOGY_MODE)), Some("Auto" | "auto"))
}

/// Each zone's share of the cluster's allocatable CPU; `None` if it cannot be determined.
pub(super) fn shares<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Option<BTreeMap<Box<str>, f64>> {
    let mut cpu_by_zone: BTreeMap<Box<str>, i64> = BTreeMap::new();
    let counts = |node: &&Node| {
        node.is_ready() && !CONTROL_PLANE.iter().any(|label| node.metadata.labels.contains_key(label))
    };
    for node in nodes.into_iter().filter(counts) {
        let cpu = node.status.allocatable.get("cpu")?.parse::<Quantity>().ok()?.milli_value();
        let of_zone = cpu_by_zone.entry(zone(node)?.into()).or_default();
        *of_zone = of_zone.checked_add(Some(cpu).filter(|cpu| *cpu > 0)?)?;
    }
    let total: i64 = cpu_by_zone.values().sum();
    if cpu_by_zone.len() < 2 {
        return None;
    }
    Some(cpu_by_zone.into_iter().map(|(zone, cpu)| (zone, cpu as f64 / total as f64)).collect())
}

/// Number of endpoints for a zone.
struct Allocation {
    desired: f64,
    maximum: usize,
}

/// Sets the topology hints, or returns the reason why they cannot be set and existing ones must be removed.
pub(super) fn hint(shares: Option<&BTreeMap<Box<str>, f64>>, packed: &mut Packed) -> Result<(), String> {
    let all = packed.kept.iter().chain(&packed.changed).chain(&packed.created);
    let ready: Vec<_> =
        all.flat_map(|draft| &draft.endpoints).filter(|endpoint| is_ready(endpoint)).collect();
    let allocations = allocations(shares, ready.len())?;
    // Checked before any change, so that correct slices stay unchanged.
    if !ready.iter().all(|endpoint| endpoint.zone.as_deref().is_some_and(|zone| !zone.is_empty())) {
        return Err("One or more endpoints do not have a zone specified".to_owned());
    }
    let mut given = keep_what_fits(&allocations, packed);
    for endpoint in written(packed) {
        let zone = endpoint.zone.clone().filter(|_| is_ready(endpoint));
        if let Some(zone) = &zone {
            *given.entry(zone.clone()).or_default() += 1;
        }
        endpoint.hints = zone.and_then(for_zone);
    }
    redistribute(moves(&allocations, &given), packed);
    Ok(())
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

fn for_zone(name: Box<str>) -> Option<Box<EndpointHints>> {
    Some(Box::new(EndpointHints { for_zones: Box::new([Named { name }]), for_nodes: Box::default() }))
}

/// Endpoints of slices that are written anyway.
fn written(packed: &mut Packed) -> impl Iterator<Item = &mut Endpoint> {
    packed.created.iter_mut().chain(&mut packed.changed).flat_map(|draft| &mut draft.endpoints)
}

fn allocations(
    shares: Option<&BTreeMap<Box<str>, f64>>,
    total: usize,
) -> Result<BTreeMap<Box<str>, Allocation>, String> {
    let Some(shares) = shares else {
        let why = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
        return Err(why.to_owned());
    };
    let counted = |why: &str| format!("{why} ({total} endpoints, {} zones)", shares.len());
    if shares.len() > total {
        return Err(counted("Insufficient number of endpoints"));
    }
    let minimum = |share: &f64| (share * total as f64 / (1.0 + OVERLOAD)).ceil() as usize;
    let minimum_total: usize = shares.values().map(minimum).sum();
    let Some(spare) = total.checked_sub(minimum_total) else {
        return Err(counted(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold",
        ));
    };
    let allocation = |share: &f64| {
        let minimum = minimum(share);
        Allocation { desired: (share * total as f64).max(minimum as f64), maximum: minimum + spare }
    };
    Ok(shares.iter().map(|(zone, share)| (zone.clone(), allocation(share))).collect())
}

/// Keeps slices whose hints are still right, and moves the others to changed. Returns the number of kept endpoints by
/// zone.
fn keep_what_fits(
    allocations: &BTreeMap<Box<str>, Allocation>,
    packed: &mut Packed,
) -> BTreeMap<Box<str>, usize> {
    let mut given: BTreeMap<Box<str>, usize> = BTreeMap::new();
    for draft in std::mem::take(&mut packed.kept) {
        match hinted(&draft).filter(|hinted| fits(hinted, &given, allocations)) {
            Some(hinted) => {
                for (zone, count) in hinted {
                    *given.entry(zone).or_default() += count;
                }
                packed.kept.push(draft);
            }
            None => packed.changed.push(draft),
        }
    }
    given
}

/// Number of endpoints hinted for each zone; `None` if an endpoint has no hint.
fn hinted(draft: &Draft) -> Option<BTreeMap<Box<str>, usize>> {
    let mut by_zone: BTreeMap<Box<str>, usize> = BTreeMap::new();
    for endpoint in draft.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let zones = &endpoint.hints.as_ref()?.for_zones;
        zones.first()?;
        for zone in zones {
            *by_zone.entry(zone.name.clone()).or_default() += 1;
        }
    }
    Some(by_zone)
}

fn fits(
    hinted: &BTreeMap<Box<str>, usize>,
    given: &BTreeMap<Box<str>, usize>,
    allocations: &BTreeMap<Box<str>, Allocation>,
) -> bool {
    hinted.iter().all(|(zone, count)| {
        let already = given.get(zone).copied().unwrap_or_default();
        allocations.get(zone).is_some_and(|allocation| count + already <= allocation.maximum)
    })
}

/// Number of endpoints that each zone gives away or receives.
#[derive(Debug, Default, PartialEq)]
struct Moves {
    giving: BTreeMap<Box<str>, usize>,
    receiving: BTreeMap<Box<str>, usize>,
}

fn moves(allocations: &BTreeMap<Box<str>, Allocation>, given: &BTreeMap<Box<str>, usize>) -> Moves {
    let surplus = |zone: &str, allocation: &Allocation| {
        given.get(zone).copied().unwrap_or_default() as f64 - allocation.desired
    };
    let mut surplus: BTreeMap<_, _> =
        allocations.iter().map(|(zone, allocation)| (zone, surplus(zone, allocation))).collect();
    let mut moves = Moves::default();
    loop {
        let most = surplus.iter().max_by(|one, other| one.1.total_cmp(other.1));
        let least = surplus.iter().min_by(|one, other| one.1.total_cmp(other.1));
        let (Some((giver, has)), Some((receiver, lacks))) = (most, least) else { return moves };
        let (giver, has, receiver, lacks) = (*giver, *has, *receiver, -*lacks);
        if has < 0.5 || lacks < 0.5 || has < 1.0 && lacks < 1.0 {
            return moves;
        }
        *moves.giving.entry(giver.clone()).or_default() += 1;
        *moves.receiving.entry(receiver.clone()).or_default() += 1;
        surplus.insert(giver, has - 1.0);
        surplus.insert(receiver, 1.0 - lacks);
    }
}

fn redistribute(mut moves: Moves, packed: &mut Packed) {
    for endpoint in written(packed).filter(|endpoint| is_ready(endpoint)) {
        let gives =
            endpoint.zone.as_ref().and_then(|zone| moves.giving.get_mut(zone)).filter(|left| **left > 0);
        let receiver = moves.receiving.iter_mut().find(|(_, left)| **left > 0);
        if let (Some(gives), Some((zone, receives))) = (gives, receiver) {
            *gives -= 1;
            *receives -= 1;
            endpoint.hints = for_zone(zone.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoints(zones: &[&str]) -> Vec<Endpoint> {
        let endpoint = |(index, zone): (usize, &&str)| {
            serde_json::from_value(json!({"addresses": [format!("10.0.0.{index}")], "zone": zone,
                "conditions": {"ready": true}}))
            .unwrap()
        };
        zones.iter().enumerate().map(endpoint).collect()
    }

    fn equal_shares(zones: &[&str]) -> BTreeMap<Box<str>, f64> {
        zones.iter().map(|zone| ((*zone).into(), 1.0 / zones.len() as f64)).collect()
    }

    /// Zones in the hints of new endpoints that are in these zones.
    fn hinted_zones(shares: &[&str], zones: &[&str]) -> Result<Vec<String>, String> {
        let created = vec![Draft { endpoints: endpoints(zones), ..Draft::default() }];
        let mut packed = Packed { created, ..Packed::default() };
        hint(Some(&equal_shares(shares)), &mut packed)?;
        let hints = packed.created[0].endpoints.iter().map(|endpoint| endpoint.hints.as_ref().unwrap());
        Ok(hints.map(|hints| hints.for_zones[0].name.to_string()).collect())
    }

    #[test]
    fn endpoints_are_hinted_to_their_own_zone_first() {
        assert_eq!(hinted_zones(&["a", "b"], &["a", "a", "b", "b"]).unwrap(), ["a", "a", "b", "b"]);
        assert_eq!(hinted_zones(&["a", "b"], &["a", "a", "a", "a"]).unwrap(), ["b", "b", "a", "a"]);
        let three = hinted_zones(&["a", "b", "c"], &["a", "a", "a", "a", "b", "c"]).unwrap();
        assert_eq!(three.iter().filter(|zone| *zone == "a").count(), 2, "{three:?}");
    }

    #[test]
    fn impossible_allocation_returns_the_reason() {
        let why = |shares: &[&str], zones: &[&str]| hinted_zones(shares, zones).unwrap_err();
        let few = "Insufficient number of endpoints (1 endpoints, 2 zones)";
        assert_eq!(why(&["a", "b"], &["a"]), few);
        let overloaded = "Unable to allocate minimum required endpoints to each zone without exceeding overload \
                          threshold (3 endpoints, 2 zones)";
        assert_eq!(why(&["a", "b"], &["a", "a", "b"]), overloaded);
        assert_eq!(why(&["a", "b"], &["a", ""]), "One or more endpoints do not have a zone specified");
        let unknown = hint(None, &mut Packed::default()).unwrap_err();
        assert!(unknown.starts_with("Insufficient Node information: "), "{unknown}");
    }

    #[test]
    fn slices_with_fitting_hints_are_left_alone() {
        let mut right = endpoints(&["a", "a", "b", "b"]);
        for endpoint in &mut right {
            endpoint.hints = for_zone(endpoint.zone.clone().unwrap());
        }
        let kept = vec![Draft { endpoints: right.clone(), ..Draft::default() }];
        let mut packed = Packed { kept, ..Packed::default() };
        hint(Some(&equal_shares(&["a", "b"])), &mut packed).unwrap();
        assert_eq!((packed.kept.len(), packed.changed.len()), (1, 0));
        right[0].hints = None;
        packed.kept[0].endpoints = right;
        hint(Some(&equal_shares(&["a", "b"])), &mut packed).unwrap();
        assert_eq!((packed.kept.len(), packed.changed.len()), (0, 1));
        assert!(packed.changed[0].endpoints[0].hints.is_some());
    }

    #[test]
    fn shares_are_proportional_to_allocatable_cpu() {
        let node = |zone: &str, cpu: &str, ready: &str, label: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": {"labels": {"topology.kubernetes.io/zone": zone, label: ""}},
                "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap()
        };
        let nodes = [
            node("a", "1", "True", "x"),
            node("b", "2500m", "True", "x"),
            node("b", "500m", "True", "x"),
            node("c", "8", "False", "x"),
            node("d", "8", "True", CONTROL_PLANE[0]),
        ];
        let shares = |nodes: &[Node]| super::shares(nodes);
        assert_eq!(shares(&nodes).unwrap(), BTreeMap::from([("a".into(), 0.25), ("b".into(), 0.75)]));
        assert_eq!(shares(&nodes[..1]), None, "one zone is not enough");
        let without_zone = [node("a", "1", "True", "x"), node("", "1", "True", "x")];
        assert_eq!(shares(&without_zone), None);
    }

    #[test]
    fn older_annotation_takes_precedence() {
        let wanted = |annotations: serde_json::Value| {
            let service = json!({"metadata": {"annotations": annotations}});
            is_wanted(&serde_json::from_value(service).unwrap())
        };
        assert!(wanted(json!({TOPOLOGY_MODE: "Auto"})) && wanted(json!({TOPOLOGY_AWARE_HINTS: "auto"})));
        assert!(!wanted(json!({TOPOLOGY_MODE: "Auto", TOPOLOGY_AWARE_HINTS: "disabled"})));
        assert!(!wanted(json!({})));
    }
}
