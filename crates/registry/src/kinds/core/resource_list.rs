//! Resource lists: validation of names and amounts of resources.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::{Quantity, Scale};
use serde_json::Value;

use super::rules;
use crate::view;

/// Resources that can be counted only in whole numbers.
const INTEGER: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Resources of nodes and pods that a quota can limit, beyond those of [`INTEGER`].
const QUOTA: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Rounds all amounts of a list up to thousandths and writes them in canonical form.
pub(crate) fn set_defaults(list: Option<&mut Value>) {
    let Some(Value::Object(list)) = list else { return };
    for amount in list.values_mut() {
        if let Ok(mut quantity) = Quantity::from_json(amount) {
            quantity.round_up(Scale::MILLI);
            *amount = quantity.to_string().into();
        }
    }
}

/// The amount of a resource in the list at a path.
pub(crate) fn amount(object: &Value, path: &[&str]) -> Option<Quantity> {
    view::at(object, path).and_then(|amount| Quantity::from_json(amount).ok())
}

/// The amounts of the list at a path by name.
pub(crate) fn amounts<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a str, Quantity)> {
    view::fields(object, path)
        .filter_map(|(name, amount)| Some((name.as_str(), Quantity::from_json(amount).ok()?)))
}

/// Formats an amount for messages.
pub(crate) fn bad_value(quantity: &Quantity) -> BadValue {
    BadValue::named(&quantity.to_string())
}

/// Returns true if Kubernetes itself defines the name: it has no prefix, or that of `kubernetes.io`.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true for the name of an extended resource.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && name::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns true if quotas support a resource.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    INTEGER.contains(&name)
        || QUOTA.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Validates the name of a resource in any context.
pub(crate) fn check_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    rules::text(name, name::qualified_name, path, errors);
    if errors.len() == before && !name.contains('/') && name != "storage" && !is_standard_for_quota(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, BadValue::named(name), detail));
    }
}

/// Validates the name of a resource of containers.
pub(crate) fn check_container_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    check_name(name, path, errors);
    let standard = ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') {
        if !standard {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, BadValue::named(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, BadValue::named(name), detail));
    }
}

/// Validates the name of a resource that a quota limits.
pub(crate) fn check_quota_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    check_name(name, path, errors);
    if !name.contains('/') && !is_standard_for_quota(name) {
        let detail = "must be a standard resource for quota";
        errors.push(FieldError::invalid(path, BadValue::named(name), detail));
    }
}

/// Rejects negative amounts, and fractions of countable resources.
pub(crate) fn check_amount(name: &str, amount: &Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    if amount.sign() < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, amount.to_string(), detail));
    }
    if (INTEGER.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, bad_value(amount), "must be an integer"));
    }
}

/// Rejects amounts that are not positive. Returns true if the amount is valid.
pub(crate) fn check_positive(amount: &Quantity, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let fine = amount.sign() > 0;
    if !fine {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be greater than zero"));
    }
    fine
}

/// Rejects negative amounts, with the message used for volumes. Returns true if the amount is valid.
pub(crate) fn check_basic(amount: &Quantity, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let fine = amount.value() >= 0;
    if !fine {
        errors.push(FieldError::invalid(path, amount.value(), "must be a valid resource quantity"));
    }
    fine
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_rounded_up_to_thousandths() {
        let mut list = json!({"cpu": "100u", "memory": "1024Ki", "pods": 3});
        set_defaults(Some(&mut list));
        assert_eq!(list, json!({"cpu": "1m", "memory": "1Mi", "pods": "3"}));
    }

    #[test]
    fn container_resource_name_must_be_standard_or_extended() {
        let check = |name: &str| {
            let mut errors = ErrorList::new();
            check_container_name(name, &Path::root("max"), &mut errors);
            errors.len()
        };
        assert_eq!(check("cpu") + check("hugepages-2Mi") + check("example.com/gpu"), 0);
        assert_eq!(check("pods"), 1);
        assert_eq!(check("requests.example.com/gpu"), 1);
        assert_eq!(check("gpu"), 2);
    }
}
