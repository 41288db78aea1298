//! Node objects and their status, as a kubelet reports it.

use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Map, Value, json};

use crate::accepted_pods::{hash, node_address};
use crate::options::{FakeNodes, FakeTaint};
use crate::status::time;
use crate::view::{Condition, Node};

/// Lease renewal interval, and the duration after which a lease expires: the interval is a quarter, as in
/// the kubelet (`nodeLeaseDurationSeconds` and `nodeLeaseRenewIntervalFraction`).
pub(crate) const LEASE_INTERVAL: Duration = Duration::from_secs(10);
pub(crate) const LEASE_DURATION_S: u32 = 40;

/// Interval of status updates without changes (`nodeStatusReportFrequency`).
const STATUS_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The reported kubelet version.
const VERSION: &str = "v1.36.4";

/// A pressure condition: its type, then reason and message without and with pressure.
type Pressure = (&'static str, [&'static str; 2], [&'static str; 2]);

/// The pressure conditions of a kubelet, with its reasons and messages (`nodestatus/setters.go`).
const PRESSURES: [Pressure; 3] = [
    (
        "MemoryPressure",
        ["KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
        ["KubeletHasInsufficientMemory", "kubelet has insufficient memory available"],
    ),
    (
        "DiskPressure",
        ["KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
        ["KubeletHasDiskPressure", "kubelet has disk pressure"],
    ),
    (
        "PIDPressure",
        ["KubeletHasSufficientPID", "kubelet has sufficient PID available"],
        ["KubeletHasInsufficientPID", "kubelet has insufficient PID available"],
    ),
];

/// Name prefix and region of created nodes.
pub(crate) const NAME_PREFIX: &str = "fake-";
pub(crate) const REGION_LABEL: &str = "topology.kubernetes.io/region";
pub(crate) const REGION: &str = "fake";

/// The node with this number.
pub(crate) fn body(nodes: &FakeNodes, number: u32, now: Timestamp) -> Value {
    let name = format!("{NAME_PREFIX}{number}");
    let zone = format!("zone-{}", number % nodes.zones.max(1));
    let taints: Vec<Value> = nodes.taints.iter().map(taint).collect();
    let mut annotations = json!({crate::NODE: "true"});
    if !nodes.missing_images.is_empty() {
        annotations[format!("{}missing-images", crate::PREFIX)] = nodes.missing_images.join(",").into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": annotations,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                REGION_LABEL: REGION,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"taints": taints},
        "status": status(&name, nodes, &[], &Conditions::default(), now),
    })
}

fn taint(taint: &FakeTaint) -> Value {
    json!({"key": taint.key, "value": taint.value, "effect": taint.effect})
}

/// The conditions that the rules of a node ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Conditions {
    not_ready: bool,
    /// The pressure conditions that are true.
    pressures: Vec<&'static str>,
}

impl Conditions {
    fn of(node: &Node) -> Self {
        let rule = |name: &str| node.metadata.annotations.get(&format!("{}{name}", crate::PREFIX));
        let pressures = rule("pressure").unwrap_or_default();
        let named = |name: &&str| pressures.split(',').any(|listed| listed.trim() == *name);
        let pressures = PRESSURES.iter().map(|(name, _, _)| *name).filter(named).collect();
        Self { not_ready: rule("ready") == Some("false"), pressures }
    }

    fn desired(&self) -> Vec<Condition> {
        let condition = |r#type: &str, is_true, [reason, message]: [&str; 2]| Condition {
            r#type: r#type.into(),
            status: if is_true { "True" } else { "False" }.into(),
            reason: reason.into(),
            message: message.into(),
            ..Condition::default()
        };
        let pressures = PRESSURES.iter().map(|(name, well, badly)| {
            let is_true = self.pressures.contains(name);
            condition(name, is_true, if is_true { *badly } else { *well })
        });
        let ready = if self.not_ready {
            condition("Ready", false, ["KubeletNotReady", "annotation fake.coracle.dev/ready is false"])
        } else {
            condition("Ready", true, ["KubeletReady", "kubelet is posting ready status"])
        };
        pressures.chain([ready]).collect()
    }
}

fn status(
    name: &str,
    nodes: &FakeNodes,
    reported: &[Condition],
    conditions: &Conditions,
    now: Timestamp,
) -> Map<String, Value> {
    let amounts = json!({
        "cpu": nodes.cpu, "memory": nodes.memory, "pods": nodes.pods.to_string(),
        "ephemeral-storage": "1Ti",
    });
    let id = format!("{:08x}-0000-4000-8000-{:012x}", hash(name), hash(name));
    let mut status = Map::new();
    status.insert("capacity".to_owned(), amounts.clone());
    status.insert("allocatable".to_owned(), amounts);
    status.insert("conditions".to_owned(), rendered(&conditions.desired(), reported, now));
    let address = node_address(name).to_string();
    let addresses =
        json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]);
    status.insert("addresses".to_owned(), addresses);
    let info = json!({
        "architecture": "amd64",
        "bootID": id,
        "containerRuntimeVersion": "fake://1.0.0",
        "kernelVersion": "0.0.0-fake",
        "kubeProxyVersion": "",
        "kubeletVersion": VERSION,
        "machineID": id.replace('-', ""),
        "operatingSystem": "linux",
        "osImage": "Coracle fake node",
        "systemUUID": id,
    });
    status.insert("nodeInfo".to_owned(), info);
    status
}

fn rendered(conditions: &[Condition], reported: &[Condition], now: Timestamp) -> Value {
    let rendered = conditions.iter().map(|desired| {
        let same =
            |reported: &&Condition| reported.r#type == desired.r#type && reported.status == desired.status;
        let since = reported.iter().find(same).and_then(|reported| reported.last_transition_time);
        json!({
            "type": desired.r#type,
            "status": desired.status,
            "reason": desired.reason,
            "message": desired.message,
            "lastHeartbeatTime": time(now),
            "lastTransitionTime": time(since.unwrap_or(now)),
        })
    });
    rendered.collect()
}

/// The status patch of a node; none if the reported status is up to date.
pub(crate) fn patch(node: &Node, now: Timestamp) -> Option<Value> {
    let (conditions, reported) = (Conditions::of(node), &node.status.conditions);
    let is_new = node.status.capacity.is_empty() || node.status.addresses.is_empty();
    let desired = conditions.desired();
    if !is_new && desired.iter().all(|desired| is_reported(desired, reported, now)) {
        return None;
    }
    let status = if is_new {
        status(node.metadata.name(), &FakeNodes::new(1), reported, &conditions, now)
    } else {
        Map::from_iter([("conditions".to_owned(), rendered(&desired, reported, now))])
    };
    Some(json!({"status": status}))
}

fn is_reported(desired: &Condition, reported: &[Condition], now: Timestamp) -> bool {
    let same = |reported: &&Condition| {
        (&reported.r#type, &reported.status, &reported.reason)
            == (&desired.r#type, &desired.status, &desired.reason)
    };
    let heartbeat = reported.iter().find(same).and_then(|reported| reported.last_heartbeat_time);
    heartbeat.is_some_and(|heartbeat| now.since(heartbeat) < STATUS_INTERVAL)
}

/// The next renewal of a node's lease. By a hash of its name, each node has one whole second of the
/// interval, so that thousands of nodes wake a worker once a second and not thousands of times.
pub(crate) fn next_renewal(name: &str, now: Timestamp) -> Timestamp {
    let interval_ms = u64::try_from(LEASE_INTERVAL.as_millis()).unwrap_or(u64::MAX);
    let slot_ms = u64::from(hash(name)) % (interval_ms / 1000) * 1000;
    let slot = now.as_millis() / interval_ms * interval_ms + slot_ms;
    let next = if slot > now.as_millis() { slot } else { slot + interval_ms };
    Timestamp::from_millis(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn node(annotations: &Value, status: &Value) -> Node {
        let metadata = json!({"name": "fake-4", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    #[test]
    fn created_node_has_a_complete_status() {
        let nodes: FakeNodes = "9,cpu=4,zones=2,taint=a:NoSchedule".parse().unwrap();
        let body = body(&nodes, 3, at(5));
        assert_eq!(body["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-1");
        assert_eq!(body["spec"]["taints"], json!([{"key": "a", "value": "", "effect": "NoSchedule"}]));
        assert_eq!(body["status"]["allocatable"]["cpu"], "4");
        assert_eq!(body["status"]["conditions"][3]["reason"], "KubeletReady");
        let reported: Node = serde_json::from_value(body).unwrap();
        assert!(reported.is_fake() && reported.is_alive());
        assert_eq!(patch(&reported, at(5 + 299)), None);
        assert!(patch(&reported, at(5 + 300)).is_some(), "the status is reported periodically");
    }

    #[test]
    fn annotated_node_gets_its_missing_status() {
        let bare = node(&json!({"fake.coracle.dev/node": "true"}), &json!({}));
        let patch = patch(&bare, at(5)).unwrap();
        assert_eq!(patch["status"]["capacity"]["pods"], "110");
        assert_eq!(patch["status"]["addresses"][0]["address"], "10.192.0.5");
    }

    #[test]
    fn rules_set_the_conditions_of_a_node() {
        let status = body(&FakeNodes::new(1), 0, at(5))["status"].take();
        let rules = json!({"fake.coracle.dev/ready": "false", "fake.coracle.dev/pressure": "DiskPressure"});
        let patch = patch(&node(&rules, &status), at(7)).unwrap();
        let desired: Vec<_> = patch["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|desired| {
                (desired["status"].as_str().unwrap(), desired["lastTransitionTime"].as_str().unwrap())
            })
            .collect();
        let (before, now) = ("1970-01-01T00:00:05Z", "1970-01-01T00:00:07Z");
        assert_eq!(desired, [("False", before), ("True", now), ("False", before), ("False", now)]);
        assert_eq!(patch["status"].get("capacity"), None);
    }

    #[test]
    fn lease_renewals_are_spread_over_the_interval() {
        let next = next_renewal("fake-7", at(1_000_003));
        assert_eq!(next.as_millis() % 1000, 0);
        assert!(next > at(1_000_003) && next <= at(1_000_013));
        assert_eq!(next_renewal("fake-7", next), next + LEASE_INTERVAL);
    }
}
