//! UnimplementedExtensions: warns about stored objects that have no effect on this server.
//!
//! Admission webhooks, conversion webhooks and aggregated API servers are not implemented yet. A webhook with
//! `failurePolicy: Fail` promises that no request bypasses it, so its author is warned in a `Warning` header, and the
//! operator in the log: when such a part is stored or changed, not by dry runs and later writes to the same object.

use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Result, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, nothing_to_say};

pub(super) struct UnimplementedExtensions;

const WRITES: [Operation; 2] = [Operation::Create, Operation::Update];

impl Plugin for UnimplementedExtensions {
    fn name(&self) -> &str {
        "UnimplementedExtensions"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![
            Rule::new("admissionregistration.k8s.io", "mutatingwebhookconfigurations", &WRITES),
            Rule::new("admissionregistration.k8s.io", "validatingwebhookconfigurations", &WRITES),
            Rule::new("apiextensions.k8s.io", "customresourcedefinitions", &WRITES),
            Rule::new("apiregistration.k8s.io", "apiservices", &WRITES),
        ]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let declaration = attributes.write.kind.declaration();
        let is_effective = !attributes.write.dry_run && attributes.write.subresource.is_empty();
        if let Some(warning) = warning(&declaration.plural, object, attributes.old).filter(|_| is_effective) {
            tracing::warn!(kind = %declaration.kind, name = view::name(object), "{warning}");
            warnings.push(warning);
        }
        nothing_to_say()
    }
}

/// The warning for the part of `object` that has no effect yet, unless `old` was stored with the same part.
fn warning(plural: &str, object: &Value, old: Option<&Value>) -> Option<String> {
    let is_changed = |path: &[&str]| old.is_none_or(|old| view::at(old, path) != view::at(object, path));
    match plural {
        "customresourcedefinitions" => {
            let path = ["spec", "conversion"];
            let is_webhook = view::text(object, &["spec", "conversion", "strategy"]) == "Webhook";
            (is_webhook && is_changed(&path)).then(|| {
                "conversion webhooks are not implemented: spec.conversion.webhook is never called, and objects are served in all versions without conversion".to_owned()
            })
        }
        "apiservices" => {
            let path = ["spec", "service"];
            (view::at(object, &path).is_some() && is_changed(&path)).then(|| {
                "aggregated API servers are not implemented: requests for this group version are answered with 503".to_owned()
            })
        }
        _ => {
            let names = required_webhooks(object);
            let is_new = old.is_none_or(|old| required_webhooks(old) != names);
            (is_new && !names.is_empty()).then(|| {
                let names = names.join(", ");
                format!("admission webhooks are not implemented: these are never called in spite of failurePolicy Fail: {names}")
            })
        }
    }
}

/// The names of webhooks with `failurePolicy: Fail`.
fn required_webhooks(object: &Value) -> Vec<&str> {
    let webhooks = view::items(object, &["webhooks"]).iter();
    let required = webhooks.filter(|webhook| view::text(webhook, &["failurePolicy"]) == "Fail");
    required.map(|webhook| view::text(webhook, &["name"])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_with_failure_policy_fail_is_warned_of() {
        let configuration = |policies: &[&str]| {
            let webhook =
                |policy: &&str| json!({"name": format!("{policy}.example.com"), "failurePolicy": policy});
            json!({"webhooks": policies.iter().map(webhook).collect::<Vec<_>>()})
        };
        let warned =
            warning("validatingwebhookconfigurations", &configuration(&["Fail", "Ignore"]), None).unwrap();
        assert!(warned.ends_with("failurePolicy Fail: Fail.example.com"), "{warned}");
        assert_eq!(warning("mutatingwebhookconfigurations", &configuration(&["Ignore"]), None), None);
    }

    #[test]
    fn definition_with_a_conversion_webhook_is_warned_of() {
        let definition = |strategy: &str| json!({"spec": {"conversion": {"strategy": strategy}}});
        assert!(warning("customresourcedefinitions", &definition("Webhook"), None).is_some());
        assert_eq!(warning("customresourcedefinitions", &definition("None"), None), None);
    }

    #[test]
    fn api_service_with_a_service_is_warned_of() {
        let remote = json!({"spec": {"service": {"name": "a", "namespace": "b"}}});
        assert!(warning("apiservices", &remote, None).is_some());
        assert_eq!(warning("apiservices", &json!({"spec": {"version": "v1"}}), None), None);
    }
}
