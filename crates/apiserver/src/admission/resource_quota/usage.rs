//! What an object uses, by its kind.

use coracle_meta::quantity::{Format, Quantity, Scale};
use coracle_meta::time::Time;
use coracle_registry::admission::{Attributes, Operation};
use coracle_registry::{Declaration, view};
use serde_json::Value;

use super::scopes::{self, attributes_classes, is_terminating};
use super::{hard, pods, used};
use crate::admission::persistent_volume_claim_resize::class;
use crate::admission::pod_resources::Amounts;

/// What of a storage class is used: this stands between its name and the resource.
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// The devices of a class: this stands after its name.
const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";

/// How many devices a claim for all of them may get at most (`AllocationResultsMaxSize` in
/// `resource.k8s.io/v1`).
const MAX_DEVICES: i64 = 32;

/// Kinds that a quota could limit by these names before it could limit every kind.
const ALIASED: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Knows what the objects of a kind use.
pub(super) enum Meter {
    Pods {
        now: Time,
    },
    Services,
    VolumeClaims,
    ResourceClaims,
    /// Nothing but themselves, under these names.
    Objects(Vec<String>),
}

impl Meter {
    pub(super) fn of(declaration: &Declaration, now: Time) -> Self {
        match (&*declaration.group, &*declaration.plural) {
            ("", "pods") => Self::Pods { now },
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Self::ResourceClaims,
            (group, plural) => {
                let mut names = vec![format!("count/{}", declaration.group_resource())];
                if group.is_empty() && ALIASED.contains(&plural) {
                    names.push(plural.to_owned());
                }
                Self::Objects(names)
            }
        }
    }

    /// Whether a write may change what is used.
    pub(super) fn handles(&self, attributes: &Attributes<'_>, object: &Value) -> bool {
        let Some(old) = attributes.old.filter(|_| attributes.operation == Operation::Update) else {
            return true;
        };
        match (self, attributes.write.subresource) {
            // What a pod asks for changes by resizing it; how long it may run, in any way.
            (Self::Pods { .. }, "") => is_terminating(old) != is_terminating(object),
            (Self::VolumeClaims, "status") => {
                allocated(old) != allocated(object) || attributes_classes(old) != attributes_classes(object)
            }
            _ => true,
        }
    }

    /// Whether a quota limits an object.
    pub(super) fn falls_under(&self, object: &Value, quota: &Value) -> bool {
        let fits = |demand: scopes::Demand<'_>| match self {
            Self::Pods { .. } => demand.fits_pod(object),
            Self::VolumeClaims => demand.fits_claim(object),
            _ => false,
        };
        hard(quota).keys().any(|name| self.counts(name)) && scopes::demands(quota).all(fits)
    }

    /// Whether an object says enough for a quota to count it, and the quota enough for that.
    pub(super) fn check(&self, object: &Value, quota: &Value) -> Result<(), String> {
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

    /// Whether a quota for this resource is about objects of the kind.
    fn counts(&self, resource: &str) -> bool {
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

    /// What an object uses.
    pub(super) fn usage(&self, object: &Value) -> Amounts {
        match self {
            Self::Pods { now } => pods::usage(object, *now),
            Self::Services => of_service(object),
            Self::VolumeClaims => of_volume_claim(object),
            Self::ResourceClaims => of_resource_claim(object),
            Self::Objects(names) => names.iter().map(|name| (name.clone(), one())).collect(),
        }
    }
}

pub(super) fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// So many of one resource.
pub(super) fn count(resource: &str, number: i64) -> Amounts {
    Amounts::from([(resource.to_owned(), Quantity::new(number, Format::DecimalSi))])
}

/// Ports of nodes may not have been given out yet, so what counts is how many are wanted.
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
    let class = class(claim);
    if !class.is_empty() {
        for name in ["persistentvolumeclaims", "requests.storage"] {
            if let Some(amount) = usage.get(name).cloned() {
                usage.insert(format!("{class}{STORAGE_CLASS_INFIX}{name}"), amount);
            }
        }
    }
    usage
}

/// What a claim wants or has got already, whichever is more, in whole bytes.
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

fn allocated(claim: &Value) -> Option<Quantity> {
    let allocated = view::at(claim, &["status", "allocatedResources", "storage"])?;
    Quantity::from_json(allocated).ok()
}

/// Of requests that leave a choice, each class counts with the most that may be chosen of it.
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
        crate::admission::pod_resources::add(&mut usage, &most);
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
    use coracle_registry::Kind;
    use coracle_registry::kinds::apps::deployment::Deployment;
    use coracle_registry::kinds::core::config_map::ConfigMap;
    use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
    use coracle_registry::kinds::core::service::Service;
    use coracle_registry::kinds::resource::resource_claim::ResourceClaim;
    use serde_json::json;

    use super::*;

    fn check(kind: &dyn Kind, object: Value, expected: &[&str]) {
        let meter = Meter::of(kind.declaration(), Time(0));
        let usage = meter.usage(&object);
        assert!(usage.keys().all(|name| meter.counts(name)), "{usage:?}");
        let shown: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_kind_is_counted() {
        check(&ConfigMap, json!({}), &["configmaps=1", "count/configmaps=1"]);
        check(&Deployment, json!({}), &["count/deployments.apps=1"]);
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
            check(&Service, service, &usage(ports, balancers).each_ref().map(String::as_str));
        }
    }

    #[test]
    fn claims_use_storage_of_a_class() {
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
        check(&PersistentVolumeClaim, claim, &expected);
        let tiny = json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}});
        let expected = ["count/persistentvolumeclaims=1", "persistentvolumeclaims=1", "requests.storage=2"];
        check(&PersistentVolumeClaim, tiny, &expected);
    }

    #[test]
    fn claims_use_devices_of_a_class() {
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
        check(&ResourceClaim, claim, &expected);
    }
}
