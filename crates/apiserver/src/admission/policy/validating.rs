//! ValidatingAdmissionPolicy: what expressions say may not be is refused, or warned of.

use std::sync::Arc;

use coracle_cel::{Budget, RUNTIME_COST_BUDGET, Value as CelValue};
use coracle_meta::status::{Cause, Reason, Status};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::admissionregistration::validating_admission_policy::ValidatingAdmissionPolicy as PolicyKind;
use coracle_registry::kinds::admissionregistration::validating_admission_policy_binding::ValidatingAdmissionPolicyBinding as BindingKind;
use coracle_registry::{Derived, Error, Result, Subject};
use serde_json::Value;

use super::compiled::{Binding, Policy, Validating, Validation};
use super::evaluation::{Bound, Failure, Inputs};
use super::request::PolicyRequest;
use super::{cache, is_exempt, params};
use crate::admission::plugin::{Plugin, Rule, name_of};
use crate::authorization::Authorizer;

/// The longest message that an expression may make, as in upstream
/// (`MaxEvaluatedMessageExpressionSizeBytes`).
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The reason of refusals that give none.
const INVALID: &str = "Invalid";

/// The plugin.
pub(in crate::admission) struct ValidatingAdmissionPolicy {
    authorizer: Arc<dyn Authorizer>,
    policies: Derived<Validating>,
    bindings: Derived<Binding>,
}

impl ValidatingAdmissionPolicy {
    pub(in crate::admission) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, policies: cache(), bindings: cache() }
    }

    async fn verdict(&self, request: &PolicyRequest<'_>) -> Result<Verdict> {
        let cluster = request.attributes.cluster;
        let mut verdict = Verdict::default();
        let bindings = cluster.derive_all(&BindingKind, &self.bindings, Binding::read).await?;
        if bindings.is_empty() || is_exempt(request) {
            return Ok(verdict);
        }
        for policy in cluster.derive_all(&PolicyKind, &self.policies, Validating::compile).await? {
            let bound: Vec<&Binding> = bindings
                .iter()
                .map(|binding| &**binding)
                .filter(|binding| binding.policy == policy.policy.name)
                .collect();
            if !bound.is_empty() {
                self.ask(&policy, &bound, request, &mut verdict).await?;
            }
        }
        Ok(verdict)
    }

    /// Asks one policy, through each of its bindings.
    async fn ask(
        &self,
        validating: &Validating,
        bindings: &[&Binding],
        request: &PolicyRequest<'_>,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let policy = &validating.policy;
        let version = match policy.constraints.matches(request).await {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(()),
            Err(error) => {
                verdict.misconfigured(policy, None, &error);
                return Ok(());
            }
        };
        let param_kind = match params::resolve(policy.params.as_ref(), request).await {
            Ok(kind) => kind,
            Err(error) => {
                verdict.misconfigured(policy, None, &error);
                return Ok(());
            }
        };
        let namespace = request.namespace_object().await?;
        let permissions = self.authorizer.permissions(request.attributes.cluster).await?;
        let inputs = Inputs::new(request, version, namespace, &*permissions);
        for binding in bindings {
            match binding.params(param_kind.as_ref(), request).await {
                Ok(found) => {
                    for params in found {
                        evaluate(validating, binding, &inputs, params.as_deref(), verdict);
                    }
                }
                Err(error) => verdict.misconfigured(policy, Some(binding), &error),
            }
        }
        Ok(())
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &str {
        "ValidatingAdmissionPolicy"
    }

    fn validates(&self) -> Vec<Rule> {
        let operations = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
        vec![Rule::any(&operations).of_subresource("*")]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let verdict = self.verdict(&PolicyRequest::new(attributes, object)).await?;
            warnings.extend(verdict.warnings);
            match verdict.denials.first() {
                Some(denial) => Err(denial.refusal(attributes, object)),
                None => Ok(()),
            }
        })
    }
}

/// What all policies together say.
#[derive(Default)]
struct Verdict {
    denials: Vec<Denial>,
    warnings: Vec<String>,
}

/// A refusal.
struct Denial {
    /// Whose it is, and why.
    message: String,
    reason: String,
}

impl Verdict {
    /// A policy or binding that cannot be used refuses, unless it says that it does not.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str) {
        if !policy.ignores_failures {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(policy, binding, &format!("failed to configure {what}: {error}"), "");
        }
    }

    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) {
        let through = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{through} denied request: {message}", policy.name);
        let reason = if reason.is_empty() { INVALID } else { reason };
        self.denials.push(Denial { message, reason: reason.to_owned() });
    }

    /// A validation that does not hold is refused, warned of, or only noted, as the binding says.
    fn enforce(&mut self, policy: &Policy, binding: &Binding, message: &str, reason: &str) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy, Some(binding), message, reason),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                // For the audit log.
                _ => {}
            }
        }
    }

    /// What cannot be evaluated counts as not holding, unless the policy says that it does not.
    fn fail(&mut self, policy: &Policy, binding: &Binding, message: &str) {
        if !policy.ignores_failures {
            self.enforce(policy, binding, message, "");
        }
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

/// Evaluates a policy with one set of parameters.
fn evaluate(
    validating: &Validating,
    binding: &Binding,
    inputs: &Inputs<'_>,
    params: Option<&Value>,
    verdict: &mut Verdict,
) {
    let policy = &validating.policy;
    match inputs.meets_conditions(policy, params) {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return verdict.fail(policy, binding, &error),
    }
    let bound = inputs.bind(policy, params);
    let mut budget = Budget::new(RUNTIME_COST_BUDGET);
    let mut denied = Vec::new();
    for validation in &validating.validations {
        match bound.evaluate(&validation.expression, &mut budget) {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => denied.push((validation, None)),
            Err(Failure::Expression(error)) => denied.push((validation, Some(error))),
            // Nothing counts that was found out before.
            Err(failure) => return verdict.fail(policy, binding, &failure.message()),
        }
    }
    for (validation, error) in denied {
        match error {
            Some(error) => verdict.fail(policy, binding, &error),
            None => match message(validation, &bound, &mut budget) {
                Ok(message) => verdict.enforce(policy, binding, &message, &validation.reason),
                Err(failure) => {
                    let error = format!("failed messageExpression: {}", failure.message());
                    verdict.fail(policy, binding, &error);
                }
            },
        }
    }
    check_annotations(validating, binding, &bound, verdict);
}

/// What is said about a validation that does not hold: what its expression says, else its text, else
/// the validation itself.
fn message<'d>(
    validation: &'d Validation,
    bound: &Bound<'d>,
    budget: &mut Budget,
) -> Result<String, Failure> {
    if let Some(expression) = &validation.message_expression {
        match bound.evaluate(expression, budget) {
            Ok(CelValue::String(text)) => {
                let text = text.as_str().trim();
                if !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') {
                    return Ok(text.to_owned());
                }
            }
            Err(failure @ Failure::OutOfBudget) => return Err(failure),
            Ok(_) | Err(Failure::Expression(_)) => {}
        }
    }
    Ok(match validation.message.as_str() {
        "" => format!("failed expression: {}", validation.expression.text.trim()),
        message => message.to_owned(),
    })
}

/// Annotations for the audit log that have no value refuse the request.
fn check_annotations<'d>(
    validating: &'d Validating,
    binding: &Binding,
    bound: &Bound<'d>,
    verdict: &mut Verdict,
) {
    let policy = &validating.policy;
    let mut budget = Budget::new(RUNTIME_COST_BUDGET);
    for (_, expression) in &validating.audit_annotations {
        if let Err(failure) = bound.evaluate(expression, &mut budget)
            && !policy.ignores_failures
        {
            verdict.deny(policy, Some(binding), &failure.message(), "");
        }
    }
}
