//! Node: a machine that runs pods.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, quoted};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::{resource_list, rules, taint};
use crate::kind::{Column, Declaration, Kind, Scope, Subresource, Verbs, texts};
use crate::{internal_types, view};

/// [`Kind`] of Node objects.
pub struct Node;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["no"]),
    subresources: vec![
        Subresource::new(
            "proxy",
            "NodeProxyOptions",
            Verbs::CREATE.with(Verbs::DELETE).with(Verbs::GET).with(Verbs::PATCH).with(Verbs::UPDATE),
        ),
        Subresource::status("Node"),
    ],
    keeps_status_on_create: true,
    selectable_fields: texts(&["spec.unschedulable"]),
    columns: vec![
        Column::name(),
        Column::text("Status", "readiness of the node, and whether scheduling is disabled"),
        Column::text("Roles", "roles from the labels node-role.kubernetes.io/*"),
        Column::age(),
        Column::text("Version", "version of the kubelet"),
        Column::text("Internal-IP", "first internal IP address of the node").wide(),
        Column::text("External-IP", "first external IP address of the node").wide(),
        Column::text("OS-Image", "operating system image").wide(),
        Column::text("Kernel-Version", "kernel version").wide(),
        Column::text("Container-Runtime", "container runtime and its version").wide(),
    ],
    storage_version_hash: "XwShjMxG9Fs=".into(),
    ..Declaration::new("", &["v1"], "Node", "nodes", "node", Scope::Cluster)
});

impl Kind for Node {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        sync_pod_cidrs(object);
        if let Some(capacity) = view::at(object, &["status", "capacity"]).cloned() {
            view::set_default(&mut object["status"], "allocatable", || capacity);
        }
        resource_list::set_defaults(object.pointer_mut("/status/capacity"));
        resource_list::set_defaults(object.pointer_mut("/status/allocatable"));
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        drop_config(object, "spec", "configSource");
        drop_config(object, "status", "config");
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        if view::at(old, &["spec", "configSource"]).is_none() {
            drop_config(new, "spec", "configSource");
        }
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _now: Time) {
        if view::at(old, &["status", "config"]).is_none() {
            drop_config(new, "status", "config");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_taints(object, errors);
        check_resources(object, errors);
        if let Some(capacity) = view::integer(object, &["status", "nodeInfo", "swap", "capacity"])
            && capacity <= 0
        {
            let path = Path::root("metadata.nodeSwapStatus.capacity");
            errors.push(FieldError::invalid(&path, capacity, "must be greater than zero"));
        }
        check_declared_features(object, errors);
        check_pod_cidrs(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_update(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_update(new, old, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if view::at(new, &["spec", "configSource"]).is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !view::text(new, &["spec", "externalID"]).is_empty() {
            warnings
                .push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = Path::root("spec.podCIDRs");
        for (index, cidr) in view::items(new, &["spec", "podCIDRs"]).iter().enumerate() {
            warnings.extend(name::cidr_warnings(&path.index(index), cidr.as_str().unwrap_or_default()));
        }
        warnings
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        Cow::Borrowed(if view::is_true(object, &["spec", "unschedulable"]) { "true" } else { "false" })
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let info = |name: &str| view::text(object, &["status", "nodeInfo", name]);
        let mut kernel = rules::or(info("kernelVersion"), "<unknown>");
        if !info("architecture").is_empty() {
            kernel = format!("{kernel} ({})", info("architecture"));
        }
        vec![
            view::name(object).into(),
            status(object).into(),
            rules::or(roles(object).join(","), "<none>").into(),
            view::age(object, now),
            info("kubeletVersion").into(),
            address(object, "InternalIP").into(),
            address(object, "ExternalIP").into(),
            rules::or(info("osImage"), "<unknown>").into(),
            kernel.into(),
            rules::or(info("containerRuntimeVersion"), "<unknown>").into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Makes `podCIDR`, the older field, equal to the first of `podCIDRs`. Where they differ, `podCIDR` wins.
fn sync_pod_cidrs(object: &mut Value) {
    let first = view::items(object, &["spec", "podCIDRs"]).first().and_then(Value::as_str).map(str::to_owned);
    let single = view::text(object, &["spec", "podCIDR"]).to_owned();
    match first {
        Some(first) if single.is_empty() => object["spec"]["podCIDR"] = first.into(),
        Some(first) if first == single => {}
        _ if single.is_empty() => {}
        _ => object["spec"]["podCIDRs"] = json!([single]),
    }
}

fn drop_config(object: &mut Value, part: &str, field: &str) {
    if let Some(Value::Object(part)) = object.get_mut(part) {
        part.remove(field);
    }
}

/// Validates an update of the node or of its status. kube-apiserver repeats checks of the whole node here, and
/// reports their errors twice for an update of the node.
fn check_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    check_resources(new, errors);
    check_declared_features(new, errors);
    check_addresses(new, errors);
    check_identity_unchanged(new, old, errors);
    check_taints(new, errors);
    if view::text(new, &["spec", "externalID"]) != view::text(old, &["spec", "externalID"]) {
        errors.push(FieldError::forbidden(&Path::root("spec.externalID"), "may not be updated"));
    }
}

/// Checks that pod CIDRs and provider ID do not change once they are set.
fn check_identity_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let may_not = |what: &str| format!("node updates may not change {what} except from \"\" to valid");
    let [new_cidrs, old_cidrs] = [new, old].map(|node| view::items(node, &["spec", "podCIDRs"]));
    let changed = old_cidrs.iter().zip(new_cidrs).filter(|(old, new)| old != new).count();
    let causes = match (old_cidrs.is_empty(), old_cidrs.len() == new_cidrs.len()) {
        (true, _) => 0,
        (false, true) => changed,
        (false, false) => 1,
    };
    for _ in 0..causes {
        errors.push(FieldError::forbidden(&Path::root("spec.podCIDRs"), may_not("podCIDR")));
    }
    let provider = view::text(old, &["spec", "providerID"]);
    if !provider.is_empty() && provider != view::text(new, &["spec", "providerID"]) {
        errors.push(FieldError::forbidden(&Path::root("spec.providerID"), may_not("providerID")));
    }
}

/// Validates the taints. Like kube-apiserver, errors name `metadata.taints` instead of `spec.taints`.
fn check_taints(node: &Value, errors: &mut ErrorList) {
    taint::validate(view::items(node, &["spec", "taints"]), &Path::root("metadata.taints"), errors);
}

fn check_resources(object: &Value, errors: &mut ErrorList) {
    let status = Path::root("status");
    for list in ["capacity", "allocatable"] {
        let list_path = status.child(list);
        for (name, amount) in resource_list::amounts(object, &["status", list]) {
            resource_list::check_amount(name, &amount, &list_path.child(name), errors);
        }
    }
}

fn check_addresses(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.addresses");
    let addresses = view::items(object, &["status", "addresses"]);
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].contains(address) {
            let found = internal_types::printed("@core.NodeAddress", Some(address));
            errors.push(FieldError::duplicate(&path.index(index), found));
        }
    }
}

fn check_declared_features(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.declaredFeatures");
    let features = view::items(object, &["status", "declaredFeatures"]);
    let features: Vec<&str> = features.iter().filter_map(Value::as_str).collect();
    for (index, feature) in features.iter().enumerate() {
        if let Some(detail) = feature_problem(feature) {
            errors.push(FieldError::invalid(&path.index(index), *feature, detail));
        }
        let Some(next) = features.get(index + 1) else { continue };
        if feature == next {
            errors.push(FieldError::duplicate(&path.index(index + 1), *next));
        } else if feature > next {
            let detail = "list must be sorted alphabetically";
            errors.push(FieldError::invalid(&path.index(index + 1), *next, detail));
        }
    }
}

fn feature_problem(feature: &str) -> Option<String> {
    let printed = quoted(feature);
    let max = name::DNS1123_SUBDOMAIN_MAX_LENGTH;
    if feature.len() > max {
        return Some(format!("invalid feature name {printed}: must be no more than {max} characters"));
    }
    let mut segments = feature.split('/').enumerate();
    let fine = segments.all(|(index, segment)| {
        let first = segment.bytes().next().unwrap_or(b' ');
        let first_fine = if index == 0 { first.is_ascii_uppercase() } else { first.is_ascii_alphabetic() };
        first_fine && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    (!fine).then(|| {
        format!(
            "invalid feature name {printed}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    })
}

fn check_pod_cidrs(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("spec.podCIDRs");
    let blocks = view::items(object, &["spec", "podCIDRs"]);
    let blocks: Vec<&str> = blocks.iter().filter_map(Value::as_str).collect();
    for (index, block) in blocks.iter().enumerate() {
        rules::cidr(block, &path.index(index), errors);
    }
    if blocks.len() < 2 {
        return;
    }
    let families: Vec<Option<bool>> = blocks
        .iter()
        .map(|block| name::parse_cidr_sloppy(block).map(|parsed| parsed.address.is_ipv4()))
        .collect();
    // kube-apiserver reports a malformed block again as an internal error of its dual-stack check.
    if let Some(index) = families.iter().position(Option::is_none) {
        let message = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {})",
            blocks[index]
        );
        errors.push(FieldError::internal(&path, message));
    }
    let dual_stack = matches!(families.as_slice(), [Some(first), Some(second)] if first != second);
    if !dual_stack {
        let value = BadValue::json(&blocks.into());
        errors.push(FieldError::invalid(
            &path,
            value,
            "may specify no more than one CIDR for each IP family",
        ));
    }
}

fn status(object: &Value) -> String {
    let conditions = view::items(object, &["status", "conditions"]);
    let ready = conditions.iter().rfind(|condition| view::text(condition, &["type"]) == "Ready");
    let status = match ready.map(|condition| view::text(condition, &["status"])) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = view::is_true(object, &["spec", "unschedulable"]);
    format!("{status}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn roles(object: &Value) -> Vec<&str> {
    let labels = view::fields(object, &["metadata", "labels"]);
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

fn address<'a>(object: &'a Value, address_type: &str) -> &'a str {
    let addresses = view::items(object, &["status", "addresses"]);
    let found = addresses.iter().find(|address| view::text(address, &["type"]) == address_type);
    found.map_or("<none>", |address| view::text(address, &["address"]))
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value, status: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "sample"}, "spec": spec, "status": status});
    let spec = |spec: Value| with(spec, json!({}));
    let status = |status: Value| with(json!({}), status);
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(
                json!({"podCIDRs": ["10.0.0.0/24", "fd00::/64"], "providerID": "x://1", "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}),
                json!({"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "declaredFeatures": ["A", "B/c"], "addresses": [{"type": "InternalIP", "address": "192.168.0.2"}]}),
            ),
            spec(json!({})),
        ],
        invalid: vec![
            Refused::new(spec(json!({"podCIDRs": ["10.0.0.1"]})), "spec.podCIDRs[0]", invalid),
            Refused::new(spec(json!({"podCIDR": "10.0.0.1/24"})), "spec.podCIDRs[0]", invalid),
            Refused::new(spec(json!({"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]})), "spec.podCIDRs", invalid),
            Refused::new(
                spec(json!({"taints": [{"key": "a"}]})),
                "metadata.taints[0].effect",
                "FieldValueRequired",
            ),
            Refused::new(
                spec(
                    json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}),
                ),
                "metadata.taints[1]",
                "FieldValueDuplicate",
            ),
            Refused::new(status(json!({"capacity": {"pods": "-1"}})), "status.capacity.pods", invalid),
            Refused::new(status(json!({"declaredFeatures": ["b"]})), "status.declaredFeatures[0]", invalid),
            Refused::new(
                status(json!({"declaredFeatures": ["B", "A"]})),
                "status.declaredFeatures[1]",
                invalid,
            ),
        ],
        updates: vec![
            json!({"spec": {"unschedulable": true}}),
            json!({"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"providerID": "x://2"}}), "spec.providerID", "FieldValueForbidden"),
            Refused::new(
                json!({"spec": {"podCIDR": null, "podCIDRs": ["10.0.9.0/24"]}}),
                "spec.podCIDRs",
                "FieldValueForbidden",
            ),
            Refused::new(json!({"spec": {"externalID": "x"}}), "spec.externalID", "FieldValueForbidden"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_cidr_wins_over_different_pod_cidrs() {
        let synced = |spec: Value| {
            let mut node = json!({"spec": spec});
            Node.set_defaults(&mut node);
            node["spec"].clone()
        };
        let both = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]});
        assert_eq!(synced(json!({"podCIDR": "10.0.0.0/24"})), both);
        assert_eq!(synced(json!({"podCIDRs": ["10.0.0.0/24"]})), both);
        assert_eq!(synced(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.9.0.0/24"]})), both);
        assert_eq!(synced(json!({})), json!({}));
    }

    #[test]
    fn table_row_shows_status_and_roles() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}],
                "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64"},
            },
        });
        let cells = Node.cells(&node, 0);
        assert_eq!(cells[1], "Ready,SchedulingDisabled");
        assert_eq!(cells[2], "control-plane,worker");
        assert_eq!(
            cells[5..9],
            [json!("10.0.0.2"), json!("<none>"), json!("<unknown>"), json!("6.1 (amd64)")]
        );
    }

    #[test]
    fn malformed_pod_cidr_beside_another_is_reported_for_each_check() {
        let node = json!({"spec": {"podCIDRs": ["10.0.0.0/24", "x"]}});
        let mut errors = ErrorList::new();
        Node.validate(&node, &mut errors);
        let printed: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed[1..],
            [
                "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with \
                 error:invalid CIDR[1]: <nil> (invalid CIDR address: x)",
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"x\"]: may specify no more than one CIDR for \
                 each IP family",
            ]
        );
    }

    #[test]
    fn duplicate_address_is_rejected() {
        let address = json!({"type": "InternalIP", "address": "10.0.0.2"});
        let node = json!({"status": {"addresses": [address, address]}});
        let mut errors = ErrorList::new();
        Node.validate_status_update(&node, &node, &mut errors);
        assert_eq!(
            errors.to_string(),
            r#"status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.2"}"#
        );
    }
}
