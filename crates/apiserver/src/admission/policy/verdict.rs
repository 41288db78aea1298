//! The combined result of all validating policies: denials, warnings, and audit annotations.

use std::collections::BTreeMap;

use coracle_meta::field::json_text;
use coracle_meta::status::{Cause, Reason, Status};
use coracle_registry::admission::Attributes;
use coracle_registry::{Error, Subject};
use serde_json::Value;

use super::compiled::{Binding, Policy};
use super::metrics::{Evaluated, ValidatingMetrics};
use crate::admission::plugin::name_of;

/// The key of the audit annotation for failed validations.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The longest value of an audit annotation, as in kube-apiserver (`maxAuditAnnotationValueLength`). Longer ones are
/// truncated.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// The reason of denials that specify none.
const INVALID: &str = "Invalid";

/// The results of all policies.
#[derive(Default)]
pub(super) struct Verdict {
    denials: Vec<Denial>,
    pub(super) warnings: Vec<String>,
    /// Audit annotations by policy and key, without duplicate values.
    annotations: BTreeMap<(String, String), Vec<String>>,
    /// Failed validations to be audited.
    failures: Vec<String>,
}

/// A denial of the request.
struct Denial {
    /// The policy, the binding and the message.
    message: String,
    reason: String,
}

/// The result of one policy with one set of parameters.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failures: Vec<Failed>,
    pub(super) annotations: Vec<(String, String)>,
    /// Errors of audit annotations.
    pub(super) annotation_errors: Vec<String>,
    /// Errors that the policy ignores.
    pub(super) ignored: Vec<Evaluated>,
}

/// A failed validation.
pub(super) struct Failed {
    /// Its index in the policy.
    pub(super) index: usize,
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) evaluated: Evaluated,
}

impl Outcome {
    /// The result of a policy that could not be evaluated: a failure, unless the policy ignores failures.
    pub(super) fn of_error(policy: &Policy, message: String, evaluated: Evaluated) -> Self {
        let mut outcome = Self::default();
        outcome.fail(policy, 0, message, evaluated);
        outcome
    }

    pub(super) fn fail(&mut self, policy: &Policy, index: usize, message: String, evaluated: Evaluated) {
        if policy.ignores_failures {
            self.ignored.push(evaluated);
        } else {
            self.failures.push(Failed { index, message, reason: String::new(), evaluated });
        }
    }

    /// Records the metrics.
    pub(super) fn note(&self, policy: &Policy, binding: &Binding, metrics: &ValidatingMetrics) {
        for evaluated in &self.ignored {
            metrics.note("allow", policy, binding, *evaluated);
        }
        for failed in &self.failures {
            for action in &binding.actions {
                let action = match action.as_str() {
                    "Deny" => "deny",
                    "Warn" => "warn",
                    _ => "audit",
                };
                metrics.note(action, policy, binding, failed.evaluated);
            }
        }
        for _ in &self.annotation_errors {
            metrics.note("deny", policy, binding, Evaluated::default());
        }
    }
}

impl Verdict {
    /// Denies the request because of an invalid policy or binding, unless the policy ignores failures.
    pub(super) fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str) {
        if !policy.ignores_failures {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(policy, binding, &format!("failed to configure {what}: {error}"), "");
        }
    }

    /// Adds the result of a policy through a binding.
    pub(super) fn add(&mut self, policy: &Policy, binding: &Binding, outcome: Outcome) {
        for failed in outcome.failures {
            self.enforce(policy, binding, &failed);
        }
        for (key, mut value) in outcome.annotations {
            if value.len() > MAX_ANNOTATION_BYTES {
                value = String::from_utf8_lossy(&value.as_bytes()[..MAX_ANNOTATION_BYTES]).into_owned();
            }
            let values = self.annotations.entry((policy.name.clone(), key)).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for error in outcome.annotation_errors {
            self.deny(policy, Some(binding), &error, "");
        }
    }

    /// Denies, warns about or audits a failed validation, as the binding specifies.
    fn enforce(&mut self, policy: &Policy, binding: &Binding, failed: &Failed) {
        let message = &failed.message;
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy, Some(binding), message, &failed.reason),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                _ => self.failures.push(noted_failure(policy, binding, failed)),
            }
        }
    }

    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) {
        let through = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{through} denied request: {message}", policy.name);
        let reason = if reason.is_empty() { INVALID } else { reason };
        self.denials.push(Denial { message, reason: reason.to_owned() });
    }

    /// Adds the audit annotations. Of failed validations only the first is recorded, as in kube-apiserver: all share
    /// one key.
    pub(super) fn annotate(&self, attributes: &Attributes<'_>) {
        for failure in &self.failures {
            attributes.annotate(VALIDATION_FAILURE, || failure);
        }
        for ((policy, key), values) in &self.annotations {
            attributes.annotate(&format!("{policy}/{key}"), || values.join(", "));
        }
    }

    /// The error of the first denial.
    pub(super) fn refusal(&self, attributes: &Attributes<'_>, object: &Value) -> Option<Error> {
        self.denials.first().map(|denial| denial.refusal(attributes, object))
    }
}

impl Denial {
    fn refusal(&self, attributes: &Attributes<'_>, object: &Value) -> Error {
        let subject = Subject::of(attributes.write.kind.declaration(), "");
        let mut status = Status::forbidden(&subject.resource, name_of(attributes, object), &self.message);
        status.code = match self.reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status.reason = Reason::from(self.reason.as_str());
        Error::Refused(Box::new(status.with_cause(Cause::new("", &*self.message, ""))))
    }
}

/// The fields in kube-apiserver's order.
fn noted_failure(policy: &Policy, binding: &Binding, failed: &Failed) -> String {
    let text = |text: &str| json_text(&Value::from(text));
    format!(
        "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{},\"validationActions\":{}}}]",
        text(&failed.message),
        text(&policy.name),
        text(&binding.name),
        failed.index,
        json_text(&Value::from(binding.actions.clone())),
    )
}
