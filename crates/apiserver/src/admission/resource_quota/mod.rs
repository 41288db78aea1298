//! ResourceQuota: limits the total resources of a namespace.
//!
//! A write is charged to the quotas that apply to it, each in one transaction that includes the charges of concurrent
//! writes. Charges of writes that failed later, and resources freed by deletions, are corrected by the quota controller
//! when it recounts.

mod charge;

use std::sync::Arc;

use coracle_api::usage::{Amounts, Meter, allocated, attributes_classes, is_terminating};
use coracle_meta::quantity::Quantity;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::resource_quota::ResourceQuota as Kind;
use coracle_registry::{Result, Scope, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden};
use super::{PERSISTENT_VOLUME_CLAIMS, PODS};
use charge::Charge;

/// Resources, with their groups, that are not counted: those without objects, and events.
const IGNORED: [(&str, &str); 4] = [
    ("", "bindings"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];

pub(super) struct ResourceQuota;

impl Plugin for ResourceQuota {
    fn name(&self) -> &str {
        "ResourceQuota"
    }

    /// All objects are counted on create; the usage of some can grow on update.
    fn validates(&self) -> Vec<Rule> {
        let update = [Operation::Update];
        vec![
            Rule::any(&[Operation::Create]),
            Rule::new("", PODS, &update),
            Rule::new("", PODS, &update).of_subresource("resize"),
            Rule::new("", "services", &update),
            Rule::new("", PERSISTENT_VOLUME_CLAIMS, &update),
            Rule::new("", PERSISTENT_VOLUME_CLAIMS, &update).of_subresource("status"),
            Rule::new("resource.k8s.io", "resourceclaims", &update),
        ]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let declaration = attributes.write.kind.declaration();
            let ignored = IGNORED.contains(&(&*declaration.group, &*declaration.plural));
            let meter = Meter::of(&declaration.group, &declaration.plural, attributes.cluster.now());
            if ignored || declaration.scope == Scope::Cluster || !matters(&meter, attributes, object) {
                return Ok(());
            }
            let quotas = attributes.cluster.find_all(&Kind, attributes.write.namespace).await?;
            if quotas.is_empty() {
                return Ok(());
            }
            let charges = charges(attributes, object, &meter, &quotas)?;
            // All quotas are checked before any is charged.
            for (quota, charge) in &charges {
                charge.applied(attributes, object, quota)?;
            }
            if !attributes.write.dry_run {
                for (quota, charge) in &charges {
                    charge.apply(attributes, object, view::name(quota)).await?;
                }
            }
            Ok(())
        })
    }
}

/// The charge of a write to each quota that applies.
fn charges<'a>(
    attributes: &Attributes<'_>,
    object: &Value,
    meter: &Meter,
    quotas: &'a [Arc<Value>],
) -> Result<Vec<(&'a Value, Charge)>> {
    let refusal = |message: String| forbidden(attributes, object, message);
    let mut concerned = Vec::new();
    for quota in quotas.iter().map(|quota| &**quota).filter(|quota| meter.falls_under(object, quota)) {
        meter.check(object, quota).map_err(refusal)?;
        concerned.push(quota);
    }
    let usage = meter.usage(object);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.sign() < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(refusal(format!("quota usage is negative for resource(s): {}", negative.join(","))));
    }
    let before = attributes.old.map(|old| (old, meter.usage(old)));
    let charge = |quota: &Value| {
        let added = match &before {
            // An object that the quota did not apply to before is charged in full.
            Some((old, before)) if meter.falls_under(old, quota) => increase(&usage, before),
            _ => usage.clone(),
        };
        Charge::new(added, quota)
    };
    let charges = concerned.into_iter().map(|quota| (quota, charge(quota)));
    Ok(charges.filter(|(_, charge)| !charge.is_nothing()).collect())
}

/// The amounts by which the usage increases.
fn increase(now: &Amounts, before: &Amounts) -> Amounts {
    let difference = |(name, amount): (&String, &Quantity)| {
        let more = match before.get(name) {
            Some(before) => amount.checked_sub(before)?,
            None => amount.clone(),
        };
        (more.sign() > 0).then(|| (name.clone(), more))
    };
    now.iter().filter_map(difference).collect()
}

/// Returns true if a write can change the usage.
fn matters(meter: &Meter, attributes: &Attributes<'_>, object: &Value) -> bool {
    let Some(old) = attributes.old.filter(|_| attributes.operation == Operation::Update) else {
        return true;
    };
    match (meter, attributes.write.subresource) {
        // The requests of a pod change only by resizing it; whether it terminates, by any update.
        (Meter::Pods { .. }, "") => is_terminating(old) != is_terminating(object),
        (Meter::VolumeClaims, "status") => {
            allocated(old) != allocated(object) || attributes_classes(old) != attributes_classes(object)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
