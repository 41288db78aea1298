//! Cluster IPs and IP families of a service: their consistency, and their updates.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::spec;
use crate::kinds::core::rules;
use crate::kinds::ratchet;

const ONCE_SET: &str = "may not change once set";

/// Validates cluster IPs, IP families and the IP family policy.
pub(super) fn validate(service: &Value, errors: &mut ErrorList) {
    if spec::is_external_name(service) {
        return;
    }
    let root = Path::root("spec");
    let path = root.child("clusterIPs");
    let ips = spec::texts(service, "clusterIPs");
    check_first(service, &ips, &path, errors);
    check_families(service, &root.child("ipFamilies"), errors);
    if let Some(policy) = spec::field(service, "ipFamilyPolicy").and_then(Value::as_str) {
        let allowed = &["PreferDualStack", "RequireDualStack", "SingleStack"];
        rules::one_of(policy, allowed, &root.child("ipFamilyPolicy"), errors);
    }
    let valid = check_ips(&ips, &path, errors);
    if ips.len() > 2 {
        errors.push(FieldError::invalid(
            &path,
            bad_value(service, "clusterIPs"),
            "may only hold up to 2 values",
        ));
    }
    if !valid {
        return;
    }
    let families: BTreeSet<_> = ips.iter().filter_map(|ip| spec::family_of(ip)).collect();
    if ips.len() > 1 && families.len() < 2 {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path, bad_value(service, "clusterIPs"), detail));
    }
    if !spec::is_headless(service) {
        check_match(&ips, &spec::texts(service, "ipFamilies"), &path, errors);
    }
}

fn bad_value(service: &Value, field: &str) -> BadValue {
    spec::field(service, field).map_or(BadValue::Json("null".to_owned()), BadValue::json)
}

/// Requires that `clusterIP` is the first of `clusterIPs`.
fn check_first(service: &Value, ips: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let ip = spec::text(service, "clusterIP");
    let detail = match (ip, ips.first()) {
        ("", None) => return,
        ("", Some(_)) => "must be empty when `clusterIP` is not specified",
        (_, None) => {
            errors.push(FieldError::required(path, ""));
            return;
        }
        (ip, Some(first)) if ip == *first => return,
        _ => "first value must match `clusterIP`",
    };
    errors.push(FieldError::invalid(path, bad_value(service, "clusterIPs"), detail));
}

fn check_families(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, family) in spec::texts(service, "ipFamilies").into_iter().enumerate() {
        let path = path.index(index);
        rules::one_of(family, &["IPv4", "IPv6"], &path, errors);
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path, BadValue::named(family)));
        }
    }
}

/// Validates each address. Returns true if all are valid.
fn check_ips(ips: &[&str], path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let mut valid = true;
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && *ip == spec::NONE {
            if ips.len() > 1 {
                valid = false;
                let detail = "'None' must be the first and only value";
                errors.push(FieldError::invalid(path, BadValue::json(&ips.into()), detail));
            }
            continue;
        }
        errors.ratcheted(ratchet::CLUSTER_IP, |errors| valid &= rules::ip(ip, &path.index(index), errors));
    }
    valid
}

fn check_match(ips: &[&str], families: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, (ip, family)) in ips.iter().zip(families).enumerate() {
        if ["IPv4", "IPv6"].contains(family) && spec::family_of(ip) != Some(family) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(FieldError::invalid(&path.index(index), *ip, detail));
        }
    }
}

/// Checks that the primary address and family do not change, and that secondary ones are released only on request.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    if spec::is_external_name(new) || spec::is_external_name(old) {
        return;
    }
    let headless = (spec::is_headless(new), spec::is_headless(old));
    if headless != (true, true) {
        check_ips_unchanged(new, old, errors);
    }
    if headless == (false, false) {
        check_families_unchanged(new, old, errors);
    }
}

fn check_ips_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (ips, before) = (spec::texts(new, "clusterIPs"), spec::texts(old, "clusterIPs"));
    let path = Path::root("spec.clusterIPs");
    let mut refuse = |index: usize, detail: &str| {
        errors.push(FieldError::invalid(&path.index(index), bad_value(new, "clusterIPs"), detail));
    };
    if ips.len() == before.len() {
        for index in (0..ips.len()).filter(|index| ips[*index] != before[*index]) {
            refuse(index, ONCE_SET);
        }
        return;
    }
    match (ips.first(), before.first()) {
        (None, _) => refuse(0, "primary clusterIP can not be unset"),
        (Some(ip), Some(before)) if ip != before => refuse(0, ONCE_SET),
        _ => {}
    }
    if ips.len() < before.len() && ips.len() == 1 {
        require_single_stack(new, "clusterIP", errors);
    }
}

fn check_families_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (families, before) = (spec::texts(new, "ipFamilies"), spec::texts(old, "ipFamilies"));
    let path = Path::root("spec.ipFamilies");
    let path = path.index(0);
    let mut refuse = |value_of: &str, detail: &str| {
        errors.push(FieldError::invalid(&path, bad_value(new, value_of), detail));
    };
    if families.len() == before.len() {
        for _ in families.iter().zip(&before).filter(|(family, before)| family != before) {
            refuse("ipFamilies", ONCE_SET);
        }
        return;
    }
    let released = families.len() < before.len();
    if released && spec::texts(new, "clusterIPs").is_empty() {
        refuse("ipFamilies", "primary ipFamily can not be unset");
    }
    if let (Some(family), Some(before)) = (families.first(), before.first())
        && family != before
    {
        // As in kube-apiserver, the message contains the value of another field.
        refuse("clusterIPs", ONCE_SET);
    }
    if released && families.len() == 1 {
        require_single_stack(new, "ipFamily", errors);
    }
}

fn require_single_stack(service: &Value, released: &str, errors: &mut ErrorList) {
    if spec::text(service, "ipFamilyPolicy") != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {released}");
        let path = Path::root("spec.ipFamilyPolicy");
        errors.push(FieldError::invalid(&path, bad_value(service, "ipFamilyPolicy"), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validation_errors(new: Value, old: Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_update(&json!({"spec": new}), &json!({"spec": old}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn primary_address_is_immutable() {
        let one = json!({"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]});
        let two = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]});
        assert!(validation_errors(two.clone(), one.clone()).is_empty());
        assert_eq!(
            validation_errors(one.clone(), two.clone()),
            [
                "spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary clusterIP",
                "spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary ipFamily",
            ]
        );
        let mut single = one.clone();
        single["ipFamilyPolicy"] = "SingleStack".into();
        assert!(validation_errors(single, two).is_empty());
        assert_eq!(
            validation_errors(json!({"clusterIPs": ["10.0.0.2"], "ipFamilies": ["IPv4"]}), one.clone()),
            [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#]
        );
        assert_eq!(
            validation_errors(json!({"ipFamilies": ["IPv4"]}), one.clone()),
            ["spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"]
        );
        assert!(validation_errors(json!({"type": "ExternalName"}), one).is_empty());
    }

    #[test]
    fn addresses_must_match_families() {
        let check = |spec: Value| {
            let mut errors = ErrorList::new();
            validate(&json!({"spec": spec}), &mut errors);
            errors.to_string()
        };
        assert_eq!(
            check(
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]})
            ),
            ""
        );
        assert_eq!(
            check(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"]})),
            r#"spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`"#
        );
        assert!(
            check(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}))
                .contains("no more than one IP")
        );
        assert!(
            check(json!({"clusterIP": "None", "clusterIPs": ["None", "fd00::1"]})).contains("first and only")
        );
    }
}
