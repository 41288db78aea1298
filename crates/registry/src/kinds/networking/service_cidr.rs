//! ServiceCIDR: a range from which services get their addresses.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::object::Meta;
use serde_json::Value;

use crate::kind::{Column, Declaration, Kind, Scope, StatusMetadata, Subresource};
use crate::kinds::core::rules;
use crate::network::AddressRange;
use crate::{internal_types, view};

/// [`Kind`] of ServiceCIDR objects.
pub struct ServiceCidr;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    subresources: vec![Subresource::status("ServiceCIDR")],
    status_metadata: StatusMetadata::Kept,
    columns: vec![Column::name(), Column::text("CIDRs", "address ranges, one per IP family"), Column::age()],
    storage_version_hash: "gNLvruQhW2g=".into(),
    ..Declaration::new(
        "networking.k8s.io",
        &["v1"],
        "ServiceCIDR",
        "servicecidrs",
        "servicecidr",
        Scope::Cluster,
    )
});

impl Kind for ServiceCidr {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    /// Empty if the object is being deleted, or if a controller has set the condition `Ready` to anything but true.
    fn ranges(&self, object: &Value) -> Vec<AddressRange> {
        let conditions = view::items(object, &["status", "conditions"]);
        let ready = conditions.iter().find(|condition| view::text(condition, &["type"]) == "Ready");
        let usable = ready.is_none_or(|condition| view::text(condition, &["status"]) == "True");
        if !usable || Meta::of(object).is_deleting() {
            return Vec::new();
        }
        cidrs(object).iter().filter_map(|cidr| cidr.parse().ok()).collect()
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec.cidrs");
        let cidrs = cidrs(object);
        if cidrs.is_empty() {
            errors.push(FieldError::required(&path, "at least one CIDR required"));
        } else if cidrs.len() > 2 {
            let value = internal_types::printed("@networking.ServiceCIDRSpec", object.get("spec"));
            errors.push(FieldError::invalid(&path, value, "may only hold up to 2 values"));
        } else {
            check_cidrs(&cidrs, &path, errors);
        }
    }

    /// An update is validated only where it adds a range: see [`Kind::validate_update`].
    fn revalidate(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if cidrs(old).len() == 1 && cidrs(new).len() == 2 {
            self.validate(new, errors);
        }
        let path = Path::root("spec.cidrs");
        let (new_object, new, old) = (new, cidrs(new), cidrs(old));
        // The only allowed change is to add a range of the other family.
        let may_add = old.len() == 1 && new.len() == 2;
        if new.len() != old.len() && !may_add {
            let found = internal_types::printed("[s", view::at(new_object, &["spec", "cidrs"]));
            errors.push(FieldError::invalid(&path, found, rules::IMMUTABLE));
            return;
        }
        for (index, (new, old)) in new.iter().zip(&old).enumerate() {
            if new != old {
                errors.push(FieldError::invalid(&path.index(index), *new, rules::IMMUTABLE));
            }
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![view::name(object).into(), cidrs(object).join(",").into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn cidrs(object: &Value) -> Vec<&str> {
    view::items(object, &["spec", "cidrs"]).iter().filter_map(Value::as_str).collect()
}

fn check_cidrs(cidrs: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, cidr) in cidrs.iter().enumerate() {
        errors.extend(name::cidr(&path.index(index), cidr));
    }
    let families: Vec<bool> =
        cidrs.iter().filter_map(|cidr| Some(name::parse_cidr_sloppy(cidr)?.address.is_ipv4())).collect();
    if families.len() == 2 && families[0] == families[1] {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, BadValue::json(&cidrs.into()), detail));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |cidrs: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "sample"}, "spec": {"cidrs": cidrs}});
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![with(json!(["10.0.0.0/24"])), with(json!(["10.0.0.0/24", "fd00::/112"]))],
        invalid: vec![
            Refused::new(with(json!([])), "spec.cidrs", "FieldValueRequired"),
            Refused::new(with(json!(["10.0.0.0/24", "10.0.1.0/24"])), "spec.cidrs", invalid),
            Refused::new(with(json!(["10.0.0.0/24", "fd00::/112", "10.0.1.0/24"])), "spec.cidrs", invalid),
            Refused::new(with(json!(["10.0.0.1/24"])), "spec.cidrs[0]", invalid),
        ],
        updates: vec![
            json!({"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"cidrs": ["10.0.1.0/24"]}}), "spec.cidrs[0]", invalid),
            Refused::new(json!({"spec": {"cidrs": ["fd00::/112", "10.0.0.0/24"]}}), "spec.cidrs[0]", invalid),
            Refused::new(json!({"spec": {"cidrs": []}}), "spec.cidrs", invalid),
        ],
    }
}
