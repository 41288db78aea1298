//! IP families of a service, which depend on those of the cluster.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Value, json};

use super::{addresses, spec};

const SINGLE: &str = "SingleStack";
const REQUIRE_DUAL: &str = "RequireDualStack";
const PREFER_DUAL: &str = "PreferDualStack";

/// Completes `ipFamilyPolicy` and `ipFamilies`; `configured` has the families of the cluster, the
/// primary one first. Must be called before addresses are allocated; any returned error rejects
/// the write.
pub(super) fn init_ip_families(service: &mut Value, old: Option<&Value>, configured: &[&str]) -> ErrorList {
    if spec::is_external_name(service) || old.is_some_and(|old| keeps_dual_stack(service, old)) {
        return ErrorList::new();
    }
    init_policy(service, old);
    let mut errors = ErrorList::new();
    addresses::validate(service, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if let Some(old) = old {
        release_second(service, old, &mut errors);
    }
    reject_second_values(service, &mut errors);
    infer_families(service, configured, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if spec::text(service, "clusterIP") == spec::NONE && has_no_selector(service) {
        // The families of its endpoints are unknown.
        complete_families(service, configured, true);
        return errors;
    }
    check_configured(service, configured, &mut errors);
    if errors.is_empty() {
        complete_families(service, configured, configured.len() == 2);
    }
    errors
}

/// Returns true if nothing changes for a service with `PreferDualStack`: it does not gain or lose a family because the
/// cluster did.
pub(super) fn keeps_dual_stack(service: &Value, old: &Value) -> bool {
    let old_policy = spec::text(old, "ipFamilyPolicy");
    spec::text(service, "ipFamilyPolicy") == PREFER_DUAL
        && (old_policy.is_empty() || old_policy == PREFER_DUAL)
        && spec::service_type(service) == spec::service_type(old)
        && !spec::is_external_name(service)
        && spec::texts(service, "clusterIPs") == spec::texts(old, "clusterIPs")
        && spec::texts(service, "ipFamilies") == spec::texts(old, "ipFamilies")
}

fn has_no_selector(service: &Value) -> bool {
    spec::field(service, "selector").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
}

fn init_policy(service: &mut Value, old: Option<&Value>) {
    // An empty policy is set, and validation rejects it.
    if spec::field(service, "ipFamilyPolicy").is_some() {
        return;
    }
    let policy = match old.map(|old| spec::text(old, "ipFamilyPolicy")) {
        Some(policy) if !policy.is_empty() => policy.to_owned(),
        _ if spec::text(service, "clusterIP") == spec::NONE && has_no_selector(service) => {
            REQUIRE_DUAL.to_owned()
        }
        _ => SINGLE.to_owned(),
    };
    spec::set(service, "ipFamilyPolicy", policy);
}

fn refuse_policy(service: &Value, detail: &str, errors: &mut ErrorList) {
    let policy = BadValue::named(spec::text(service, "ipFamilyPolicy"));
    errors.push(FieldError::invalid(&Path::root("spec.ipFamilyPolicy"), policy, detail));
}

/// Releases the secondary address of a service that becomes single-stack, if nothing else changed.
fn release_second(service: &mut Value, old: &Value, errors: &mut ErrorList) {
    let single = spec::text(service, "ipFamilyPolicy") == SINGLE;
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let now: Vec<String> = spec::texts(service, field).into_iter().map(str::to_owned).collect();
        let before = spec::texts(old, field);
        if single {
            if now == before && now.len() > 1 {
                spec::set(service, field, json!([now[0]]));
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            refuse_policy(service, &detail, errors);
        }
    }
}

fn reject_second_values(service: &Value, errors: &mut ErrorList) {
    if spec::text(service, "ipFamilyPolicy") != SINGLE {
        return;
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec::texts(service, field).len() == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            refuse_policy(service, &detail, errors);
        }
    }
}

/// Derives families from the addresses that the client requests.
fn infer_families(service: &mut Value, configured: &[&str], errors: &mut ErrorList) {
    let mut families: Vec<String> =
        spec::texts(service, "ipFamilies").into_iter().map(str::to_owned).collect();
    let ips = spec::texts(service, "clusterIPs");
    let count = families.len();
    let path = Path::root("spec.clusterIPs");
    for (index, ip) in ips.iter().enumerate().skip(count) {
        let Some(family) = spec::family_of(ip) else { break };
        if configured.contains(&family) {
            families.push(family.to_owned());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            let value = BadValue::json(&ips.as_slice().into());
            errors.push(FieldError::invalid(&path.index(index), value, detail));
        }
    }
    if families.len() > count {
        spec::set(service, "ipFamilies", families);
    }
}

fn check_configured(service: &Value, configured: &[&str], errors: &mut ErrorList) {
    if spec::text(service, "ipFamilyPolicy") == REQUIRE_DUAL && configured.len() < 2 {
        refuse_policy(service, "this cluster is not configured for dual-stack services", errors);
    }
    let path = Path::root("spec.ipFamilies");
    for (index, family) in spec::texts(service, "ipFamilies").into_iter().enumerate() {
        if !configured.contains(&family) {
            let detail = "not configured on this cluster";
            errors.push(FieldError::invalid(&path.index(index), BadValue::named(family), detail));
        }
    }
}

/// Adds the primary family if there is none, and the other one if two are possible.
fn complete_families(service: &mut Value, configured: &[&str], two_possible: bool) {
    let mut families = spec::texts(service, "ipFamilies");
    if families.is_empty() {
        families.extend(configured.first());
    }
    if let [family] = families.as_slice()
        && two_possible
        && spec::text(service, "ipFamilyPolicy") != SINGLE
    {
        families.push(spec::other_family(family));
    }
    let families = json!(families);
    spec::set(service, "ipFamilies", families);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(spec: Value, old: Option<Value>, configured: &[&str]) -> Result<Value, String> {
        let mut service = json!({"spec": spec});
        let old = old.map(|old| json!({"spec": old}));
        let errors = init_ip_families(&mut service, old.as_ref(), configured);
        if errors.is_empty() { Ok(service["spec"].clone()) } else { Err(errors.to_string()) }
    }

    #[test]
    fn families_default_to_those_of_the_cluster() {
        let one = init(json!({}), None, &["IPv4"]).unwrap();
        assert_eq!(one, json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}));
        let prefer = json!({"ipFamilyPolicy": "PreferDualStack"});
        let two = init(prefer.clone(), None, &["IPv6", "IPv4"]).unwrap();
        assert_eq!(two["ipFamilies"], json!(["IPv6", "IPv4"]));
        assert_eq!(init(prefer, None, &["IPv4"]).unwrap()["ipFamilies"], json!(["IPv4"]));
        let refused = init(json!({"ipFamilyPolicy": "RequireDualStack"}), None, &["IPv4"]).unwrap_err();
        assert!(refused.contains("not configured for dual-stack"), "{refused}");
    }

    #[test]
    fn headless_service_without_selector_may_have_any_family() {
        let headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        let spec = init(headless.clone(), None, &["IPv4"]).unwrap();
        assert_eq!(spec["ipFamilyPolicy"], "RequireDualStack");
        assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
        let mut selecting = headless;
        selecting["selector"] = json!({"a": "b"});
        assert_eq!(init(selecting, None, &["IPv4"]).unwrap()["ipFamilies"], json!(["IPv4"]));
    }

    #[test]
    fn families_are_inferred_from_requested_addresses() {
        let requested = json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]});
        assert_eq!(init(requested.clone(), None, &["IPv4", "IPv6"]).unwrap()["ipFamilies"], json!(["IPv6"]));
        let refused = init(requested, None, &["IPv4"]).unwrap_err();
        assert!(refused.contains("IPv6 is not configured on this cluster"), "{refused}");
    }

    #[test]
    fn single_stack_releases_the_secondary_address() {
        let old = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"});
        let mut new = old.clone();
        new["ipFamilyPolicy"] = "SingleStack".into();
        let spec = init(new, Some(old.clone()), &["IPv4", "IPv6"]).unwrap();
        assert_eq!((&spec["clusterIPs"], &spec["ipFamilies"]), (&json!(["10.0.0.1"]), &json!(["IPv4"])));
        let fewer = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"});
        assert!(
            init(fewer, Some(old.clone()), &["IPv4", "IPv6"])
                .unwrap_err()
                .contains("to release the secondary")
        );
        assert_eq!(
            init(old.clone(), Some(old.clone()), &["IPv4"]).unwrap(),
            old,
            "nothing requested, nothing changed"
        );
    }
}
