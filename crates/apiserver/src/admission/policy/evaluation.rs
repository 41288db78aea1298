//! Evaluation of the expressions of a policy for one request.

use std::borrow::Cow;
use std::sync::Arc;

use coracle_cel::policy::{
    AUTHORIZER, NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, PARAMS, REQUEST, REQUEST_RESOURCE, VARIABLES,
    namespace as namespace_decl, request as request_decl,
};
use coracle_cel::{
    Authorizer as Questions, Bindings, Budget, Check, Decision, Decl, ResourceCheck, Subject,
    Value as CelValue, Variables,
};
use coracle_meta::selector::{fields, labels};
use coracle_registry::{Identity, view};
use serde_json::Value;

use super::compiled::{Expression, Policy};
use super::metrics::ErrorType;
use super::request::{PolicyRequest, Representation};
use crate::authorization::{Attributes, Permissions, ResourceTarget, Target};

/// The cost budget of all match conditions of a policy, as in kube-apiserver (`RuntimeCELCostBudgetMatchConditions`).
const CONDITIONS_BUDGET: u64 = 2_500_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Why an expression has no value.
pub(super) enum Failure {
    /// It does not compile, which may happen with the types of a version that is no longer served.
    Compilation(String),
    /// Its evaluation failed.
    Expression(String),
    /// The cost budget of all expressions is exhausted.
    OutOfBudget,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Expression(message)
    }
}

impl Failure {
    pub(super) fn error_type(&self) -> ErrorType {
        match self {
            Self::Compilation(_) => ErrorType::Compile,
            Self::Expression(_) => ErrorType::Invalid,
            Self::OutOfBudget => ErrorType::OutOfBudget,
        }
    }

    pub(super) fn message(self) -> String {
        match self {
            Self::Compilation(message) | Self::Expression(message) => message,
            Self::OutOfBudget => OUT_OF_BUDGET.to_owned(),
        }
    }
}

/// The inputs of expressions.
pub(super) struct Inputs<'a> {
    object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
    request: Value,
    resource: ResourceCheck,
    questions: AskFor<'a>,
    namespace: Option<Arc<Value>>,
}

impl<'a> Inputs<'a> {
    /// Creates the inputs of a request in one group and version.
    pub(super) fn new(
        request: &PolicyRequest<'a>,
        representation: Representation<'_>,
        namespace: Option<Arc<Value>>,
        permissions: &'a dyn Permissions,
    ) -> Self {
        let write = request.attributes.write;
        Self {
            object: request.object.map(|object| request.convert(representation, object)),
            old: request.old.map(|old| request.convert(representation, old)),
            request: request.describe(representation),
            resource: ResourceCheck {
                group: request.group().into(),
                resource: request.resource().into(),
                subresource: write.subresource.into(),
                namespace: request.namespace().into(),
                name: request.attributes.name.into(),
                ..ResourceCheck::default()
            },
            questions: AskFor { permissions, requester: write.requester },
            namespace,
        }
    }

    /// The object, in the group and version of these inputs.
    pub(super) fn object(&self) -> Option<&Value> {
        self.object.as_deref()
    }

    /// Replaces the object, after a mutation.
    pub(super) fn set_object(&mut self, object: Value) {
        self.object = Some(Cow::Owned(object));
    }

    pub(super) fn into_object(self) -> Option<Value> {
        self.object.map(Cow::into_owned)
    }

    /// Binds the variables for a policy with these parameters.
    pub(super) fn bind<'d>(&'d self, policy: &'d Policy, params: Option<&'d Value>) -> Bound<'d> {
        self.bind_with(policy, params, self.namespace.as_deref())
    }

    fn bind_with<'d>(
        &'d self,
        policy: &'d Policy,
        params: Option<&'d Value>,
        namespace: Option<&'d Value>,
    ) -> Bound<'d> {
        let anything = |value: Option<&'d Value>| read(value, Decl::anything());
        let bindings = Bindings::new()
            .with(OBJECT, anything(self.object.as_deref()))
            .with(OLD_OBJECT, anything(self.old.as_deref()))
            .with(REQUEST, read(Some(&self.request), request_decl()))
            .with(NAMESPACE_OBJECT, read(namespace, namespace_decl()))
            .with(PARAMS, anything(params))
            .with(AUTHORIZER, CelValue::authorizer(&self.questions))
            .with(REQUEST_RESOURCE, CelValue::request_resource(&self.questions, self.resource.clone()));
        let mut variables = Variables::new(bindings, VARIABLES);
        for (name, expression) in &policy.variables {
            if let Ok(program) = &expression.program {
                variables.field(name, program);
            }
        }
        Bound { variables }
    }

    /// Returns true if the match conditions hold, so that the policy applies.
    ///
    /// # Errors
    /// If conditions fail to evaluate and no other condition is false, unless the policy ignores failures.
    pub(super) fn meets_conditions(&self, policy: &Policy, params: Option<&Value>) -> Result<bool, String> {
        // Match conditions cannot use the namespace.
        let bound = self.bind_with(policy, params, None);
        let mut budget = Budget::new(CONDITIONS_BUDGET);
        let mut failures = Vec::new();
        for condition in &policy.conditions {
            match bound.evaluate(condition, &mut budget) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(Failure::OutOfBudget) if policy.ignores_failures => return Ok(false),
                Err(Failure::OutOfBudget) => return Err(OUT_OF_BUDGET.to_owned()),
                Err(Failure::Compilation(message) | Failure::Expression(message)) => failures.push(message),
            }
        }
        match failures.len() {
            0 => Ok(true),
            _ if policy.ignores_failures => Ok(false),
            1 => Err(failures.remove(0)),
            _ => Err(format!("[{}]", failures.join(", "))),
        }
    }
}

/// Converts an object to a CEL value; null if it is absent. Stored objects match the declared type.
fn read<'d>(value: Option<&'d Value>, decl: &'d Decl) -> CelValue<'d> {
    value.and_then(|value| CelValue::from_json(value, decl).ok()).unwrap_or(CelValue::Null)
}

/// The bound variables.
pub(super) struct Bound<'d> {
    variables: Variables<'d>,
}

impl<'d> Bound<'d> {
    pub(super) fn evaluate(
        &self,
        expression: &'d Expression,
        budget: &mut Budget,
    ) -> Result<CelValue<'d>, Failure> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Err(Failure::Compilation(format!("compilation error: {error}"))),
        };
        let outcome = program.evaluate(&self.variables, budget);
        if budget.is_exhausted() {
            return Err(Failure::OutOfBudget);
        }
        outcome.map_err(|error| {
            Failure::Expression(format!("expression '{}' resulted in error: {error}", expression.text))
        })
    }
}

/// Answers authorization checks of expressions.
struct AskFor<'a> {
    permissions: &'a dyn Permissions,
    requester: &'a Identity,
}

impl Questions for AskFor<'_> {
    fn authorize(&self, subject: &Subject, check: Check<'_>, verb: &str) -> Decision {
        let account;
        let identity = match subject {
            Subject::ServiceAccount { namespace, name } => {
                account = service_account(namespace, name);
                &account
            }
            _ => self.requester,
        };
        let (fields, labels) = match check {
            Check::Path(_) => Default::default(),
            // Selectors that cannot be parsed are ignored, as in kube-apiserver.
            Check::Resource(resource) => (
                resource.field_selector.parse::<fields::Selector>().unwrap_or_default(),
                resource.label_selector.parse::<labels::Selector>().unwrap_or_default(),
            ),
        };
        let target = match check {
            Check::Path(path) => Target::Path(path),
            Check::Resource(resource) => Target::Resource(ResourceTarget {
                group: &resource.group,
                version: "*",
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                field_selector: fields.requirements(),
                label_selector: labels.requirements(),
            }),
        };
        let decision = self.permissions.authorize(identity, &Attributes { verb, target });
        Decision {
            allowed: decision.allowed,
            reason: decision.reason,
            error: Some(decision.evaluation_error).filter(|error| !error.is_empty()),
        }
    }
}

fn service_account(namespace: &str, name: &str) -> Identity {
    Identity {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        ..Identity::default()
    }
}

/// The namespace and name of the parameters, for messages.
pub(super) fn param_key(params: Option<&Value>) -> String {
    let text = |field| params.map_or("", |params| view::text(params, &["metadata", field]));
    format!("{}/{}", text("namespace"), text("name"))
}
