//! Evaluators of resource quotas: the usage of objects by kind.

use coracle_meta::object::Meta;
use coracle_meta::quantity::{Format, Quantity, Scale};
use coracle_meta::time::Time;
use coracle_meta::view;
use serde_json::Value;

use super::{Amounts, add, amounts, pods, scopes};

/// Annotation with the storage class of a claim, which is older than the field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Infix between the name of a storage class and the resource in quotas.
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// Suffix after the name of a device class in quotas.
const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";

/// Maximum number of devices of a claim for all devices (`AllocationResultsMaxSize` in `resource.k8s.io/v1`).
const MAX_DEVICES: i64 = 32;

/// Kinds that quotas could count under their plain plural name before `count/` existed.
const ALIASED: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Computes the usage of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meter {
    /// Pods: CPU, memory and other resources while they run.
    Pods {
        /// The current time.
        now: Time,
    },
    /// Services: node ports and load balancers.
    Services,
    /// Persistent volume claims: storage.
    VolumeClaims,
    /// Resource claims: devices.
    ResourceClaims,
    /// Other kinds: only the number of objects, under these names.
    Objects(Vec<String>),
}

impl Meter {
    /// The meter for objects of a kind.
    pub fn of(group: &str, plural: &str, now: Time) -> Self {
        match (group, plural) {
            ("", "pods") => Self::Pods { now },
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Self::ResourceClaims,
            ("", plural) if ALIASED.contains(&plural) => {
                Self::Objects(vec![format!("count/{plural}"), plural.to_owned()])
            }
            ("", plural) => Self::Objects(vec![format!("count/{plural}")]),
            (group, plural) => Self::Objects(vec![format!("count/{plural}.{group}")]),
        }
    }

    /// Whether a quota counts an object.
    pub fn falls_under(&self, object: &Value, quota: &Value) -> bool {
        hard(quota).keys().any(|name| self.counts(name)) && self.is_in_scope(object, quota)
    }

    /// Whether an object matches the scopes of a quota.
    pub fn is_in_scope(&self, object: &Value, quota: &Value) -> bool {
        scopes::demands(quota).all(|demand| match self {
            Self::Pods { .. } => demand.fits_pod(object),
            Self::VolumeClaims => demand.fits_claim(object),
            _ => false,
        })
    }

    /// Checks that an object states all resources that a quota requires it to state.
    ///
    /// # Errors
    /// The missing resources, as a message for the client.
    pub fn check(&self, object: &Value, quota: &Value) -> Result<(), String> {
        let (hard, used) = (hard(quota), used(quota));
        let limited: Vec<&str> = hard.keys().map(String::as_str).filter(|name| self.counts(name)).collect();
        let name = view::name(quota);
        if let Some(missing) = self.missing(object, &limited) {
            return Err(format!("failed quota: {name}: {missing}"));
        }
        if limited.iter().any(|name| !used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {name}, resources: {}", limited.join(",")));
        }
        Ok(())
    }

    fn missing(&self, object: &Value, limited: &[&str]) -> Option<String> {
        match self {
            Self::Pods { .. } => pods::missing(object, limited),
            _ => None,
        }
    }

    /// Whether objects of the kind use this resource of a quota.
    pub fn counts(&self, resource: &str) -> bool {
        match self {
            Self::Pods { .. } => pods::counts(resource),
            Self::Services => matches!(
                resource,
                "count/services" | "services" | "services.nodeports" | "services.loadbalancers"
            ),
            Self::VolumeClaims => {
                let plain = resource.rsplit_once(STORAGE_CLASS_INFIX).map_or(resource, |(_, plain)| plain);
                matches!(plain, "persistentvolumeclaims" | "requests.storage")
                    || resource == "count/persistentvolumeclaims"
            }
            Self::ResourceClaims => {
                resource == "count/resourceclaims.resource.k8s.io" || resource.ends_with(DEVICES_SUFFIX)
            }
            Self::Objects(names) => names.iter().any(|name| name == resource),
        }
    }

    /// The usage of an object.
    pub fn usage(&self, object: &Value) -> Amounts {
        match self {
            Self::Pods { now } => pods::usage(object, *now),
            Self::Services => of_service(object),
            Self::VolumeClaims => of_volume_claim(object),
            Self::ResourceClaims => of_resource_claim(object),
            Self::Objects(names) => names.iter().map(|name| (name.clone(), one())).collect(),
        }
    }
}

/// The limits of a quota.
pub fn hard(quota: &Value) -> Amounts {
    amounts(quota, &["status", "hard"])
}

/// The recorded usage of a quota.
pub fn used(quota: &Value) -> Amounts {
    amounts(quota, &["status", "used"])
}

/// The storage class of a claim; empty if it has none.
pub fn storage_class(claim: &Value) -> &str {
    Meta::of(claim)
        .annotation(CLASS_ANNOTATION)
        .unwrap_or_else(|| view::text(claim, &["spec", "storageClassName"]))
}

pub(super) fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// An amount of one resource.
pub(super) fn count(resource: &str, number: i64) -> Amounts {
    Amounts::from([(resource.to_owned(), Quantity::new(number, Format::DecimalSi))])
}

/// Node ports may not have been allocated yet, so the requested number counts.
fn of_service(service: &Value) -> Amounts {
    let ports = view::items(service, &["spec", "ports"]);
    let is_balanced = view::text(service, &["spec", "type"]) == "LoadBalancer";
    let wants_none =
        view::at(service, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool) == Some(false);
    let is_given = |port: &&Value| view::integer(port, &["nodePort"]).unwrap_or(0) != 0;
    let node_ports = match view::text(service, &["spec", "type"]) {
        "LoadBalancer" if wants_none => ports.iter().filter(is_given).count(),
        "LoadBalancer" | "NodePort" => ports.len(),
        _ => 0,
    };
    let mut usage = count("count/services", 1);
    usage.extend(count("services", 1));
    usage.extend(count("services.nodeports", i64::try_from(node_ports).unwrap_or(i64::MAX)));
    usage.extend(count("services.loadbalancers", is_balanced.into()));
    usage
}

fn of_volume_claim(claim: &Value) -> Amounts {
    let mut usage = count("persistentvolumeclaims", 1);
    usage.extend(count("count/persistentvolumeclaims", 1));
    if let Some(size) = size(claim) {
        usage.insert("requests.storage".to_owned(), size);
    }
    let class = storage_class(claim);
    if !class.is_empty() {
        for name in ["persistentvolumeclaims", "requests.storage"] {
            if let Some(amount) = usage.get(name).cloned() {
                usage.insert(format!("{class}{STORAGE_CLASS_INFIX}{name}"), amount);
            }
        }
    }
    usage
}

/// The requested or allocated size of a claim, whichever is larger, in whole bytes.
fn size(claim: &Value) -> Option<Quantity> {
    let path = ["spec", "resources", "requests", "storage"];
    let wanted = Quantity::from_json(view::at(claim, &path)?).ok()?;
    let mut size = allocated(claim).filter(|allocated| *allocated > wanted).unwrap_or(wanted);
    let mut rounded = size.clone();
    if !rounded.round_up(Scale::ONE) {
        size = rounded;
    }
    Some(size)
}

/// The storage that is allocated to a claim so far.
pub fn allocated(claim: &Value) -> Option<Quantity> {
    let allocated = view::at(claim, &["status", "allocatedResources", "storage"])?;
    Quantity::from_json(allocated).ok()
}

/// For requests with alternatives, each class counts with the largest number that may be allocated from it.
fn of_resource_claim(claim: &Value) -> Amounts {
    let mut usage = count("count/resourceclaims.resource.k8s.io", 1);
    for request in view::items(claim, &["spec", "devices", "requests"]) {
        let choices = view::items(request, &["firstAvailable"]);
        let mut most = Amounts::new();
        for choice in choices.iter().chain(view::at(request, &["exactly"])) {
            let class = format!("{}{DEVICES_SUFFIX}", view::text(choice, &["deviceClassName"]));
            let devices = Quantity::new(devices(choice), Format::DecimalSi);
            if most.get(&class).is_none_or(|most| devices > *most) {
                most.insert(class, devices);
            }
        }
        add(&mut usage, &most);
    }
    usage
}

fn devices(request: &Value) -> i64 {
    match view::text(request, &["allocationMode"]) {
        "ExactCount" => view::integer(request, &["count"]).unwrap_or(0),
        "All" => MAX_DEVICES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check((group, plural): (&str, &str), object: &Value, expected: &[&str]) {
        let meter = Meter::of(group, plural, Time(0));
        let usage = meter.usage(object);
        assert!(usage.keys().all(|name| meter.counts(name)), "{usage:?}");
        let printed: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(printed, expected);
    }

    #[test]
    fn every_kind_is_counted() {
        check(("", "configmaps"), &json!({}), &["configmaps=1", "count/configmaps=1"]);
        check(("apps", "deployments"), &json!({}), &["count/deployments.apps=1"]);
    }

    #[test]
    fn services_use_ports_and_balancers() {
        let service = |kind: &str, allocates: bool| {
            json!({"spec": {
                "type": kind, "allocateLoadBalancerNodePorts": allocates,
                "ports": [{"port": 1, "nodePort": 30000}, {"port": 2}],
            }})
        };
        let usage = |ports: &str, balancers: &str| {
            [
                "count/services=1".to_owned(),
                "services=1".into(),
                format!("services.loadbalancers={balancers}"),
                format!("services.nodeports={ports}"),
            ]
        };
        for (service, ports, balancers) in [
            (service("ClusterIP", true), "0", "0"),
            (service("NodePort", true), "2", "0"),
            (service("LoadBalancer", true), "2", "1"),
            (service("LoadBalancer", false), "1", "1"),
        ] {
            check(("", "services"), &service, &usage(ports, balancers).each_ref().map(String::as_str));
        }
    }

    #[test]
    fn persistent_volume_claims_use_storage_of_their_class() {
        let claim = json!({
            "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"allocatedResources": {"storage": "2Gi"}},
        });
        let expected = [
            "count/persistentvolumeclaims=1",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
            "gold.storageclass.storage.k8s.io/requests.storage=2Gi",
            "persistentvolumeclaims=1",
            "requests.storage=2Gi",
        ];
        check(("", "persistentvolumeclaims"), &claim, &expected);
        let tiny = json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}});
        let expected = ["count/persistentvolumeclaims=1", "persistentvolumeclaims=1", "requests.storage=2"];
        check(("", "persistentvolumeclaims"), &tiny, &expected);
    }

    #[test]
    fn resource_claims_use_devices_of_their_class() {
        let exactly = |class: &str, count: i64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
        let all = json!({"deviceClassName": "b", "allocationMode": "All"});
        let claim = json!({"spec": {"devices": {"requests": [
            {"exactly": exactly("a", 2)},
            {"firstAvailable": [exactly("a", 1), exactly("a", 3), all]},
        ]}}});
        let expected = [
            "a.deviceclass.resource.k8s.io/devices=5",
            "b.deviceclass.resource.k8s.io/devices=32",
            "count/resourceclaims.resource.k8s.io=1",
        ];
        check(("resource.k8s.io", "resourceclaims"), &claim, &expected);
    }
}
