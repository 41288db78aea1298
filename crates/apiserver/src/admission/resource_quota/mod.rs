//! ResourceQuota: a namespace has only so much of everything.
//!
//! What a write adds is charged to the quotas it falls under, each in one step that sees what
//! others have charged. What was charged for a write that failed later, and what is set free by
//! deletions, is for the controller that counts anew.

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

/// Resources, with their groups, that are no objects, or too many.
const IGNORED: [(&str, &str); 4] = [
    ("", "bindings"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];

/// The plugin.
pub(super) struct ResourceQuota;

impl Plugin for ResourceQuota {
    fn name(&self) -> &str {
        "ResourceQuota"
    }

    /// Everything is counted when it is created; some things may also grow.
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
            // All of them are looked at before any is changed.
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

/// What a write adds to each quota it falls under.
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
            // What did not count before counts as a whole.
            Some((old, before)) if meter.falls_under(old, quota) => increase(&usage, before),
            _ => usage.clone(),
        };
        Charge::new(added, quota)
    };
    let charges = concerned.into_iter().map(|quota| (quota, charge(quota)));
    Ok(charges.filter(|(_, charge)| !charge.is_nothing()).collect())
}

/// By how much there is more than before.
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

/// Whether a write may change what is used.
fn matters(meter: &Meter, attributes: &Attributes<'_>, object: &Value) -> bool {
    let Some(old) = attributes.old.filter(|_| attributes.operation == Operation::Update) else {
        return true;
    };
    match (meter, attributes.write.subresource) {
        // What a pod asks for changes by resizing it; how long it may run, in any way.
        (Meter::Pods { .. }, "") => is_terminating(old) != is_terminating(object),
        (Meter::VolumeClaims, "status") => {
            allocated(old) != allocated(object) || attributes_classes(old) != attributes_classes(object)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
