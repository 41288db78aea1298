//! Resource requests and limits of containers and pods.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::spec::Context;
use super::{aggregate, check};
use crate::kinds::ratchet;
use crate::view;

/// Resource names without a prefix that are valid in some context.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Returns true for huge pages of any size.
pub(crate) fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Returns true if Kubernetes itself defines the resource.
fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Returns true for an extended resource, which a device plugin or an administrator defines.
pub(crate) fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}

/// Returns true if nodes may be overcommitted on the resource.
pub(crate) fn may_be_overcommitted(resource: &str) -> bool {
    is_native(resource) && !is_huge_pages(resource)
}

/// Returns true if the resource can be set at pod level.
pub(crate) fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_huge_pages(resource)
}

/// Returns amounts by resource name; invalid amounts are omitted.
pub(crate) fn amounts<'a>(resources: &'a Value, list: &str) -> BTreeMap<&'a str, Quantity> {
    view::fields(resources, &[list])
        .filter_map(|(name, amount)| Some((name.as_str(), Quantity::from_json(amount).ok()?)))
        .collect()
}

/// Validates an amount: not negative, and an integer for countable resources.
pub(crate) fn validate_amount(resource: &str, amount: &Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    if amount.sign() < 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), check::NEGATIVE));
    }
    if (COUNTED.contains(&resource) || is_extended(resource)) && amount.milli_value() % 1000 != 0 {
        let found = BadValue::named(&amount.to_string());
        errors.push(FieldError::invalid(path, found, "must be an integer"));
    }
}

/// Validates the resources of a container.
pub(super) fn validate_container(
    resources: &Value,
    claims: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    requirements(resources, container_name, path, errors);
    claim_names(resources, claims, &path.child("claims"), errors);
}

/// Validates the overhead, which is the cost of running a pod beyond its containers.
pub(super) fn validate_overhead(overhead: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    requirements(&serde_json::json!({"limits": overhead}), container_name, path, errors);
}

/// Validates the resources at pod level.
pub(super) fn validate_pod_level(context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(resources) = context.spec.get("resources") else { return };
    let path = path.child("resources");
    if view::text(context.spec, &["os", "name"]) == "windows" {
        return errors.push(FieldError::forbidden(&path, "may not be set for a windows pod"));
    }
    if resources.get("claims").is_some() {
        let message = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), message));
    }
    requirements(resources, pod_name, &path, errors);
    claim_names(resources, &context.claims, &path.child("claims"), errors);
    consistency(context.spec, resources, &path, errors);
}

fn resource_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let messages = name::qualified_name(resource);
    if !messages.is_empty() {
        for message in messages {
            errors.push(FieldError::invalid(path, BadValue::named(resource), message));
        }
        return false;
    }
    let is_standard = STANDARD.contains(&resource)
        || is_huge_pages(resource)
        || resource.starts_with("requests.hugepages-");
    if !resource.contains('/') && !is_standard {
        let message = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, BadValue::named(resource), message));
        return false;
    }
    true
}

fn container_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    resource_name(resource, path, errors);
    let is_for_containers =
        matches!(resource, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(resource);
    let message = if !resource.contains('/') && !is_for_containers {
        "must be a standard resource for containers"
    } else if resource.contains('/') && !is_native(resource) && !is_extended(resource) {
        "doesn't follow extended resource name standard"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, BadValue::named(resource), message));
}

fn pod_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if resource_name(resource, path, errors) && !is_pod_level(resource) {
        let allowed = &["cpu", "hugepages-", "memory"];
        errors.push(FieldError::not_supported(path, BadValue::named(resource), allowed));
    }
}

fn requirements(
    resources: &Value,
    check_name: fn(&str, &Path<'_>, &mut ErrorList),
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (resource, amount) in &limits {
        one_amount(resource, amount, check_name, &limits_path.key(resource), errors);
    }
    for (resource, amount) in &requests {
        let path = requests_path.key(resource);
        check_name(resource, &path, errors);
        validate_amount(resource, amount, &path, errors);
        within_limit(resource, amount, limits.get(resource), &requests_path, &limits_path, errors);
        divisible(resource, amount, &path, errors);
    }
    let has = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| wanted(name));
    if has(is_huge_pages) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

fn one_amount(
    resource: &str,
    amount: &Quantity,
    check_name: fn(&str, &Path<'_>, &mut ErrorList),
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    check_name(resource, path, errors);
    validate_amount(resource, amount, path, errors);
    divisible(resource, amount, path, errors);
}

fn within_limit(
    resource: &str,
    amount: &Quantity,
    limit: Option<&Quantity>,
    path: &Path<'_>,
    limits_path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let overcommit = may_be_overcommitted(resource);
    match limit {
        Some(limit) if amount != limit && !overcommit => {
            let message = format!("must be equal to {resource} limit of {limit}");
            errors.push(FieldError::invalid(path, amount.to_string(), message));
        }
        Some(limit) if amount > limit => {
            let message = format!("must be less than or equal to {resource} limit of {limit}");
            errors.push(FieldError::invalid(path, amount.to_string(), message));
        }
        None if !overcommit => {
            let message = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(limits_path, message));
        }
        _ => {}
    }
}

/// Requires a multiple of the page size.
fn divisible(resource: &str, amount: &Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(size) = resource.strip_prefix("hugepages-") else { return };
    let size = size.parse::<Quantity>().ok().filter(|size| size.sign() > 0 && size.milli_value() % 1000 == 0);
    if size.is_none_or(|size| amount.value() % size.value() != 0) {
        let message = format!("{amount} is not positive integer multiple of {resource}");
        let error = FieldError::invalid(path, amount.to_string(), message);
        errors.push(error.unless(ratchet::WHOLE_HUGE_PAGES));
    }
}

fn claim_names(resources: &Value, claims: &BTreeSet<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, claim) in view::items(resources, &["claims"]).iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (view::text(claim, &["name"]), view::text(claim, &["request"]));
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        if seen.contains(&(name, "")) {
            // An earlier item names the claim as a whole.
            errors.push(FieldError::duplicate(&path, name));
        } else {
            if !request.is_empty() {
                check::dns_label(request, &path.child("request"), errors);
            }
            if seen.contains(&(name, request)) {
                errors.push(FieldError::duplicate(&path, format!("{name}/{request}")));
            } else if request.is_empty() {
                let parts = seen.iter().filter(|(other, _)| *other == name).count();
                errors.extend((0..parts).map(|_| FieldError::duplicate(&path, name)));
            }
            seen.insert((name, request));
        }
        if !claims.contains(name) {
            let available = claims.iter().copied().collect::<Vec<_>>().join(", ");
            let end =
                if available.is_empty() { " which is empty".to_owned() } else { format!(": {available}") };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{end}");
            errors.push(FieldError { detail, ..FieldError::not_found(&path, name) });
        }
    }
}

/// Checks that the resources at pod level are sufficient for the containers.
fn consistency(spec: &Value, resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    let requests_path = path.child("requests");
    for (resource, needed) in aggregate::of_containers(spec, "requests") {
        if let Some(amount) = requests.get(resource)
            && needed > *amount
        {
            let message =
                format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.push(FieldError::invalid(&requests_path.key(resource), amount.to_string(), message));
        }
    }
    let limits_path = path.child("limits");
    for (resource, needed) in aggregate::of_containers(spec, "limits") {
        if let Some(amount) = limits.get(resource)
            && is_huge_pages(resource)
            && needed > *amount
        {
            let message = format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.push(FieldError::invalid(&limits_path.key(resource), amount.to_string(), message));
        }
    }
    let containers = path.child("containers");
    for (index, container) in view::items(spec, &["containers"]).iter().enumerate() {
        let path = containers.index(index);
        for (resource, amount) in amounts(container.get("resources").unwrap_or(&Value::Null), "limits") {
            if let Some(limit) = limits.get(resource)
                && amount > *limit
            {
                let message = format!("must be less than or equal to pod limits of {limit}");
                let path = path.key(resource);
                errors.push(FieldError::invalid(&path.child("limits"), amount.to_string(), message));
            }
        }
    }
}
