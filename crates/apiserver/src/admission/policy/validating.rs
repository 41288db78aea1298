//! The plugin ValidatingAdmissionPolicy.

use std::sync::Arc;

use coracle_base::metrics::Metrics;
use coracle_cel::{Budget, RUNTIME_COST_BUDGET, Value as CelValue};
use coracle_registry::Result;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::admissionregistration::validating_admission_policy::ValidatingAdmissionPolicy as PolicyKind;
use coracle_registry::kinds::admissionregistration::validating_admission_policy_binding::ValidatingAdmissionPolicyBinding as BindingKind;
use serde_json::Value;
use tokio::time::Instant;

use super::compiled::{Validating, Validation};
use super::evaluation::{Bound, Failure, Inputs};
use super::metrics::{ErrorType, Evaluated, ValidatingMetrics};
use super::request::{GroupVersion, PolicyRequest};
use super::selection::{Policies, Selection};
use super::verdict::{Failed, Outcome, Verdict};
use crate::admission::plugin::{Plugin, Rule};
use crate::authorization::Authorizer;

/// The longest message of an expression, as in kube-apiserver (`MaxEvaluatedMessageExpressionSizeBytes`).
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

pub(in crate::admission) struct ValidatingAdmissionPolicy {
    authorizer: Arc<dyn Authorizer>,
    policies: Policies<Validating>,
    metrics: ValidatingMetrics,
}

impl ValidatingAdmissionPolicy {
    pub(in crate::admission) fn new(authorizer: Arc<dyn Authorizer>, metrics: &Metrics) -> Self {
        let policies = Policies::new(&PolicyKind, &BindingKind, Validating::compile);
        Self { authorizer, policies, metrics: ValidatingMetrics::new(metrics) }
    }

    async fn verdict(&self, request: &PolicyRequest<'_>) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        let selected = self.policies.select(request).await?;
        if selected.is_empty() {
            return Ok(verdict);
        }
        let namespace = request.namespace_object().await?;
        let permissions = self.authorizer.permissions(request.attributes.cluster).await?;
        // Most policies match the request in the same group and version, so its inputs are reused.
        let mut known: Option<(GroupVersion, Inputs<'_>)> = None;
        for selection in selected {
            let invocation = match selection {
                Selection::Ask(invocation) => invocation,
                Selection::Misconfigured { policy, binding, error } => {
                    verdict.misconfigured(&policy.policy, binding.as_deref(), &error);
                    continue;
                }
            };
            let (_, inputs) = match &mut known {
                Some(known) if known.0 == invocation.group_version => known,
                other => {
                    let inputs = Inputs::new(
                        request,
                        request.representation(&invocation.group_version),
                        namespace.clone(),
                        &*permissions,
                    );
                    other.insert((invocation.group_version, inputs))
                }
            };
            let outcome = evaluate(&invocation.policy, inputs, invocation.params.as_deref());
            outcome.note(&invocation.policy.policy, &invocation.binding, &self.metrics);
            verdict.add(&invocation.policy.policy, &invocation.binding, outcome);
        }
        Ok(verdict)
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
            let mut verdict = self.verdict(&PolicyRequest::new(attributes, object)).await?;
            warnings.append(&mut verdict.warnings);
            verdict.annotate(attributes);
            verdict.refusal(attributes, object).map_or(Ok(()), Err)
        })
    }
}

/// Evaluates a policy with one set of parameters.
fn evaluate(validating: &Validating, inputs: &Inputs<'_>, params: Option<&Value>) -> Outcome {
    let policy = &validating.policy;
    let began = Instant::now();
    let evaluated = |error| Evaluated { error, took: began.elapsed() };
    match inputs.meets_conditions(policy, params) {
        Ok(true) => {}
        Ok(false) => return Outcome::default(),
        Err(error) => return Outcome::of_error(policy, error, evaluated(ErrorType::Invalid)),
    }
    let bound = inputs.bind(policy, params);
    let mut outcome = match validate(validating, &bound) {
        Ok(outcome) => outcome,
        // Results before the error are discarded.
        Err(failure) => {
            let evaluated = evaluated(failure.error_type());
            return Outcome::of_error(policy, failure.message(), evaluated);
        }
    };
    match annotate(validating, &bound, &mut outcome) {
        Ok(()) => outcome,
        Err(failure) => {
            let evaluated = evaluated(failure.error_type());
            Outcome::of_error(policy, failure.message(), evaluated)
        }
    }
}

/// Evaluates all validations.
///
/// # Errors
/// If the cost budget is exhausted.
fn validate<'d>(validating: &'d Validating, bound: &Bound<'d>) -> Result<Outcome, Failure> {
    let policy = &validating.policy;
    let mut budget = Budget::new(RUNTIME_COST_BUDGET);
    let mut denied = Vec::new();
    for (index, validation) in validating.validations.iter().enumerate() {
        let began = Instant::now();
        let result = bound.evaluate(&validation.expression, &mut budget);
        let error = result.as_ref().map_or_else(Failure::error_type, |_| ErrorType::Invalid);
        let evaluated = Evaluated { error, took: began.elapsed() };
        match result {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => denied.push((index, validation, None, evaluated)),
            Err(Failure::Compilation(error) | Failure::Expression(error)) => {
                denied.push((index, validation, Some(error), evaluated));
            }
            Err(failure) => return Err(failure),
        }
    }
    let mut outcome = Outcome::default();
    for (index, validation, error, evaluated) in denied {
        match error {
            Some(error) => outcome.fail(policy, index, error, evaluated),
            None => match message(validation, bound, &mut budget) {
                Ok(message) => {
                    let reason = validation.reason.clone();
                    outcome.failures.push(Failed { index, message, reason, evaluated });
                }
                Err(failure) => {
                    let message = format!("failed messageExpression: {}", failure.message());
                    outcome.fail(policy, index, message, evaluated);
                }
            },
        }
    }
    Ok(outcome)
}

/// The message of a failed validation: the result of its message expression, or its text, or the validation itself.
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
            Ok(_) | Err(Failure::Compilation(_) | Failure::Expression(_)) => {}
        }
    }
    Ok(match validation.message.as_str() {
        "" => format!("failed expression: {}", validation.expression.text.trim()),
        message => message.to_owned(),
    })
}

/// Evaluates all audit annotations. Null and blank values are omitted; an evaluation error rejects the request, unless
/// the policy ignores failures.
///
/// # Errors
/// If the cost budget is exhausted.
/// If they cost too much together.
fn annotate<'d>(validating: &'d Validating, bound: &Bound<'d>, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut budget = Budget::new(RUNTIME_COST_BUDGET);
    for (key, expression) in &validating.audit_annotations {
        match bound.evaluate(expression, &mut budget) {
            Ok(CelValue::String(value)) => {
                let value = value.as_str().trim();
                if !value.is_empty() {
                    outcome.annotations.push((key.clone(), value.to_owned()));
                }
            }
            Ok(CelValue::Null) => {}
            // Independent of the failure policy, as in kube-apiserver.
            Ok(other) => outcome.annotation_errors.push(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either \
                 string or null.",
                expression.text,
                other.type_of()
            )),
            Err(Failure::Compilation(error) | Failure::Expression(error))
                if !validating.policy.ignores_failures =>
            {
                outcome.annotation_errors.push(error);
            }
            Err(Failure::Compilation(_) | Failure::Expression(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
