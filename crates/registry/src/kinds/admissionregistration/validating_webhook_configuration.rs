//! ValidatingWebhookConfiguration: webhooks that accept or reject a request.

use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::{name_warnings, webhooks};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::view;

/// [`Kind`] of ValidatingWebhookConfiguration objects.
pub struct ValidatingWebhookConfiguration;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    metadata_checks: 1,
    checks_metadata_change_again: false,
    categories: texts(&["api-extensions"]),
    generation: Generation::Content,
    unconditional_update: false,
    columns: vec![Column::name(), Column::integer("Webhooks", "how many webhooks it has"), Column::age()],
    storage_version_hash: "B0wHjQmsGNk=".into(),
    ..Declaration::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        Scope::Cluster,
    )
});

impl Kind for ValidatingWebhookConfiguration {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        webhooks::set_defaults(object, |_| {});
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        webhooks::check_all(object, |_, _, _| {}, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let count = view::items(object, &["webhooks"]).len();
        vec![view::name(object).into(), count.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        webhooks::stored_samples(&self.samples().valid[0])
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let empty = cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", json!({}));
    let valid = with(&empty, "/webhooks", json!([webhooks::sample()]));
    Samples {
        invalid: webhooks::invalid_samples(&valid),
        updates: vec![json!({"webhooks": null}), json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"webhooks": [{"name": "a.b.c"}]}),
            "webhooks[0].clientConfig",
            "FieldValueRequired",
        )],
        valid: vec![valid, empty],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_defaults_are_set() {
        let mut object = samples().valid.remove(0);
        ValidatingWebhookConfiguration.set_defaults(&mut object);
        let webhook = &object["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["timeoutSeconds"], 10);
        assert_eq!(webhook["rules"][0]["scope"], "*");
        assert_eq!(webhook["clientConfig"]["service"]["port"], 443);
        assert!(webhook.get("reinvocationPolicy").is_none());
    }
}
