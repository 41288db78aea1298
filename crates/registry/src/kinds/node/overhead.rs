//! Overhead of a runtime class: resources for running a pod beyond those of its containers.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::view;

/// Resources that have a meaning in Kubernetes, but not for containers.
const STANDARD: [&str; 17] = [
    "configmaps",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// Validates the overhead. kube-apiserver treats it like the limits of a container, as the field paths show.
pub(super) fn check(overhead: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let limits = path.child("limits");
    let (mut huge_pages, mut cpu_or_memory) = (false, false);
    for (resource, quantity) in view::fields(overhead, &["podFixed"]) {
        let path = limits.key(resource);
        check_resource_name(resource, &path, errors);
        if let Ok(quantity) = Quantity::from_json(quantity) {
            check_quantity(resource, &quantity, &path, errors);
        }
        huge_pages |= resource.starts_with(HUGE_PAGES_PREFIX);
        cpu_or_memory |= matches!(resource.as_str(), "cpu" | "memory");
    }
    if huge_pages && !cpu_or_memory {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

fn check_resource_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let invalid = |detail: &str| FieldError::invalid(path, BadValue::named(resource), detail);
    let messages = name::qualified_name(resource);
    let qualified = messages.is_empty();
    errors.extend(messages.into_iter().map(|message| invalid(&message)));
    if resource.contains('/') {
        if !resource.contains("kubernetes.io/") && !is_extended(resource) {
            errors.push(invalid("doesn't follow extended resource name standard"));
        }
    } else if !is_standard(resource) {
        if qualified && !STANDARD.contains(&resource) {
            errors.push(invalid("must be a standard resource type or fully qualified"));
        }
        errors.push(invalid("must be a standard resource for containers"));
    }
}

fn check_quantity(resource: &str, quantity: &Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    if quantity.sign() < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, quantity.to_string(), detail));
    }
    if is_extended(resource) && quantity.milli_value() % 1000 != 0 {
        let found = BadValue::Json(format!("\"{quantity}\""));
        errors.push(FieldError::invalid(path, found, "must be an integer"));
    }
    if let Some(size) = resource.strip_prefix(HUGE_PAGES_PREFIX) {
        let size = size.parse::<Quantity>().map_or(0, |size| size.value());
        if size <= 0 || quantity.value() % size != 0 {
            let detail = format!("{quantity} is not positive integer multiple of {resource}");
            errors.push(FieldError::invalid(path, quantity.to_string(), detail));
        }
    }
}

fn is_standard(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with(HUGE_PAGES_PREFIX)
}

/// Returns true for an extended resource, whose name must also be valid in a quota.
fn is_extended(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}
