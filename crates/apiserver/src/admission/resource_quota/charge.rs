//! Charges to a quota: the check against its limits, and the update of its status.

use coracle_api::usage::{Amounts, add, hard, used};
use coracle_registry::admission::Attributes;
use coracle_registry::lifecycle::{Change, Write};
use coracle_registry::{Error, Result, view};
use serde_json::Value;

use super::Kind;
use crate::admission::plugin::forbidden;
use crate::admission::read;

/// The field manager of the update.
const MANAGER: &str = "kube-apiserver";

/// The amounts to charge.
pub(super) struct Charge(Amounts);

impl Charge {
    /// Creates a charge of the amounts that a quota limits.
    pub(super) fn new(mut amounts: Amounts, quota: &Value) -> Self {
        let hard = hard(quota);
        amounts.retain(|name, amount| !amount.is_zero() && hard.contains_key(name));
        Self(amounts)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Charges the current state of a quota. A quota that was deleted meanwhile has no effect.
    pub(super) async fn apply(&self, attributes: &Attributes<'_>, object: &Value, name: &str) -> Result<()> {
        let write = Write {
            kind: &Kind,
            api_version: "v1",
            served_version: "v1",
            subresource: "status",
            manager: MANAGER,
            ..*attributes.write
        };
        let patch = |quota: Value| {
            let used = self.applied(attributes, object, &quota)?;
            let mut quota = quota;
            for (resource, amount) in used {
                *read::entry(&mut quota, &["status", "used", &resource]) = amount.to_string().into();
            }
            Ok(quota)
        };
        match attributes.cluster.update(&write, name, &Change::Patch(&patch)).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the usage after the charge, of the resources that it changes and the quota limits; an error if it
    /// exceeds the quota.
    pub(super) fn applied(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        quota: &Value,
    ) -> Result<Amounts> {
        let (hard, used) = (hard(quota), used(quota));
        let mut requested = self.0.clone();
        requested.retain(|name, _| hard.contains_key(name));
        let mut after = used.clone();
        after.retain(|name, _| requested.contains_key(name));
        add(&mut after, &requested);
        let exceeded: Vec<&String> =
            after.iter().filter(|(name, amount)| *amount > &hard[*name]).map(|(name, _)| name).collect();
        // A status update reports facts, which cannot be rejected.
        if exceeded.is_empty() || attributes.write.subresource == "status" {
            return Ok(after);
        }
        let message = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            view::name(quota),
            listed(&requested, &exceeded),
            listed(&used, &exceeded),
            listed(&hard, &exceeded)
        );
        Err(forbidden(attributes, object, message))
    }
}

/// Formats some of the amounts for messages.
fn listed(amounts: &Amounts, names: &[&String]) -> String {
    let shown = amounts.iter().filter(|(name, _)| names.contains(name));
    shown.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}
