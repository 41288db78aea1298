//! The plugin MutatingAdmissionPolicy.

use std::sync::Arc;

use coracle_base::metrics::Metrics;
use coracle_cel::{Budget, RUNTIME_COST_BUDGET};
use coracle_meta::status::{Cause, Reason, Status};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::admissionregistration::mutating_admission_policy::MutatingAdmissionPolicy as PolicyKind;
use coracle_registry::kinds::admissionregistration::mutating_admission_policy_binding::MutatingAdmissionPolicyBinding as BindingKind;
use coracle_registry::{Error, Result, Subject};
use serde_json::Value;
use tokio::time::Instant;

use super::compiled::{Binding, Mutating, Policy};
use super::evaluation::{Failure, Inputs, param_key};
use super::metrics::{ErrorType, Evaluated, MutatingMetrics};
use super::patch;
use super::request::PolicyRequest;
use super::selection::{Invocation, Policies, Selection};
use crate::admission::pass::Pass;
use crate::admission::plugin::{Plugin, Rule, name_of};
use crate::authorization::Authorizer;

pub(in crate::admission) struct MutatingAdmissionPolicy {
    authorizer: Arc<dyn Authorizer>,
    policies: Policies<Mutating>,
    metrics: MutatingMetrics,
}

/// The errors of policies, in the order in which they occurred.
#[derive(Default)]
struct Failures(Vec<(String, &'static str)>);

impl MutatingAdmissionPolicy {
    pub(in crate::admission) fn new(authorizer: Arc<dyn Authorizer>, metrics: &Metrics) -> Self {
        let policies = Policies::new(&PolicyKind, &BindingKind, Mutating::compile);
        Self { authorizer, policies, metrics: MutatingMetrics::new(metrics) }
    }

    async fn change(&self, attributes: &Attributes<'_>, object: &mut Value, pass: &Pass) -> Result<()> {
        let mut failures = Failures::default();
        let mut invocations = Vec::new();
        for selection in self.policies.select(&PolicyRequest::new(attributes, object)).await? {
            match selection {
                Selection::Ask(invocation) => invocations.push(invocation),
                Selection::Misconfigured { policy, binding, error } => {
                    failures.misconfigured(&policy.policy, binding.as_deref(), &error);
                }
            }
        }
        if !invocations.is_empty() {
            pass.begin_policies(object);
            for invocation in &invocations {
                self.invoke(invocation, attributes, object, pass, &mut failures).await?;
            }
            pass.end_policies(object);
        }
        failures.into_result(attributes, object)
    }

    async fn invoke(
        &self,
        invocation: &Invocation<Mutating>,
        attributes: &Attributes<'_>,
        object: &mut Value,
        pass: &Pass,
        failures: &mut Failures,
    ) -> Result<()> {
        let Invocation { policy, binding, params, group_version } = invocation;
        let before = object.clone();
        let request = PolicyRequest::new(attributes, &before);
        let representation = request.representation(group_version);
        let namespace = request.namespace_object().await?;
        let permissions = self.authorizer.permissions(request.attributes.cluster).await?;
        let mut inputs = Inputs::new(&request, representation, namespace, &*permissions);
        let params = params.as_deref();
        match inputs.meets_conditions(&policy.policy, params) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                failures.failed(&policy.policy, binding, &error);
                return Ok(());
            }
        }
        let key = key(invocation);
        if !pass.is_due(&key) {
            return Ok(());
        }
        for mutation in &policy.mutations {
            let mut budget = Budget::new(RUNTIME_COST_BUDGET);
            let began = Instant::now();
            let applied = patch::apply(
                mutation,
                &policy.policy,
                params,
                &inputs,
                &request,
                representation,
                &mut budget,
            );
            let error = applied.as_ref().map_or_else(Failure::error_type, |_| ErrorType::None);
            self.metrics.note(&policy.policy, binding, Evaluated { error, took: began.elapsed() });
            match applied {
                Ok(Some(patched)) => inputs.set_object(patched),
                Ok(None) => {}
                Err(failure) => failures.failed(&policy.policy, binding, &failure.message()),
            }
        }
        let after = inputs.into_object().map(|after| request.convert_back(representation, after));
        let changed = after.as_ref().is_some_and(|after| *after != before);
        if let Some(after) = after.filter(|_| changed) {
            *object = after;
            // The fields that a policy adds have no defaults yet.
            attributes.write.kind.set_defaults(object);
        }
        pass.record_run(key, changed, policy.is_reinvocable);
        Ok(())
    }
}

/// The key that identifies an invocation within a request.
fn key(invocation: &Invocation<Mutating>) -> String {
    let Invocation { policy, binding, params, .. } = invocation;
    format!("{} {} {}", policy.policy.name, binding.name, param_key(params.as_deref()))
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &str {
        "MutatingAdmissionPolicy"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::any(&[Operation::Create, Operation::Update]).of_subresource("*")]
    }

    fn mutate_in<'a>(
        &'a self,
        pass: &'a Pass,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.change(attributes, object, pass))
    }
}

impl Failures {
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.add(policy, binding, &format!("failed to configure {what}: {error}"), "");
    }

    fn failed(&mut self, policy: &Policy, binding: &Binding, error: &str) {
        self.add(policy, Some(binding), error, "Invalid");
    }

    fn add(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str, reason: &'static str) {
        if policy.ignores_failures {
            return;
        }
        let message = match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {error}", policy.name, binding.name)
            }
            None => format!("policy {:?} denied request: {error}", policy.name),
        };
        self.0.push((message, reason));
    }

    fn into_result(self, attributes: &Attributes<'_>, object: &Value) -> Result<()> {
        let Some((first, reason)) = self.0.first() else { return Ok(()) };
        let subject = Subject::of(attributes.write.kind.declaration(), "");
        let mut status = Status::forbidden(&subject.resource, name_of(attributes, object), "");
        status.message.clone_from(first);
        // The code stays 403, as in kube-apiserver.
        if !reason.is_empty() {
            status.reason = Reason::from(*reason);
        }
        for (message, _) in self.0 {
            status = status.with_cause(Cause::new("", message, ""));
        }
        Err(Error::Refused(Box::new(status)))
    }
}
