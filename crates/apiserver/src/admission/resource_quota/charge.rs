//! Charging a quota: whether it fits, and how it is written down.

use coracle_api::usage::{Amounts, add, hard, used};
use coracle_registry::admission::Attributes;
use coracle_registry::lifecycle::{Change, Write};
use coracle_registry::{Error, Result, view};
use serde_json::Value;

use super::Kind;
use crate::admission::plugin::forbidden;
use crate::admission::read;

/// Who owns the fields that are written here.
const MANAGER: &str = "kube-apiserver";

/// What is to be charged.
pub(super) struct Charge(Amounts);

impl Charge {
    /// What counts of these amounts for a quota.
    pub(super) fn new(mut amounts: Amounts, quota: &Value) -> Self {
        let hard = hard(quota);
        amounts.retain(|name, amount| !amount.is_zero() && hard.contains_key(name));
        Self(amounts)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Charges a quota as it is when it is written. One that has gone meanwhile limits nobody.
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

    /// What is used afterwards, of what the quota limits and this changes.
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
        // A status says what is so, whether it may be or not.
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

/// Some of the amounts, as messages show them.
fn listed(amounts: &Amounts, names: &[&String]) -> String {
    let shown = amounts.iter().filter(|(name, _)| names.contains(name));
    shown.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}
