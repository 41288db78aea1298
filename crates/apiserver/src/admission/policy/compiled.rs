//! Compiled policies and bindings.

use coracle_cel::Program;
use coracle_cel::policy::{PolicyExpressions, Role};
use coracle_registry::{KindRef, view};
use serde_json::Value;

use super::matching::MatchResources;
use super::params::{self, ParamKind, Params};
use super::request::PolicyRequest;

/// An expression and its compiled program.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    /// The program, or the compilation error. Such policies are rejected, but may have been stored by another server.
    pub(super) program: Result<Program, String>,
}

impl Expression {
    fn compile(expressions: &PolicyExpressions, text: &str, role: Role) -> Self {
        let program = expressions.check(text.trim(), role);
        let program = program.and_then(|checked| checked.program().map_err(|error| error.to_string()));
        Self { text: text.to_owned(), program }
    }
}

/// The common parts of both kinds of policies.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    /// True if errors of the policy are ignored (`failurePolicy: Ignore`).
    pub(super) ignores_failures: bool,
    pub(super) constraints: MatchResources,
    pub(super) params: Option<ParamKind>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) conditions: Vec<Expression>,
}

impl Policy {
    fn compile(object: &Value) -> (Self, PolicyExpressions) {
        let spec = &object["spec"];
        let params = ParamKind::read(spec);
        let mut expressions = PolicyExpressions::new(params.is_some());
        let mut variables = Vec::new();
        for variable in view::items(spec, &["variables"]) {
            let text = view::text(variable, &["expression"]);
            let compiled = Expression::compile(&expressions, text, Role::Variable);
            let name = view::text(variable, &["name"]);
            expressions.name(name, compiled.program.as_ref().ok().map(Program::output_type));
            variables.push((name.to_owned(), compiled));
        }
        let condition = |condition: &Value| {
            Expression::compile(&expressions, view::text(condition, &["expression"]), Role::Condition)
        };
        let policy = Self {
            name: view::name(object).to_owned(),
            ignores_failures: view::text(spec, &["failurePolicy"]) == "Ignore",
            constraints: MatchResources::read(&spec["matchConstraints"]),
            params,
            variables,
            conditions: view::items(spec, &["matchConditions"]).iter().map(condition).collect(),
        };
        (policy, expressions)
    }
}

impl AsRef<Policy> for Validating {
    fn as_ref(&self) -> &Policy {
        &self.policy
    }
}

impl AsRef<Policy> for Mutating {
    fn as_ref(&self) -> &Policy {
        &self.policy
    }
}

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub(super) struct Validating {
    pub(super) policy: Policy,
    pub(super) validations: Vec<Validation>,
    /// Keys and values.
    pub(super) audit_annotations: Vec<(String, Expression)>,
}

/// A condition that must hold, and the message if it does not.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

impl Validating {
    pub(super) fn compile(object: &Value) -> Self {
        let (policy, expressions) = Policy::compile(object);
        let compile = |owner: &Value, field: &str, role| {
            Expression::compile(&expressions, view::text(owner, &[field]), role)
        };
        let validation = |found: &Value| Validation {
            expression: compile(found, "expression", Role::Condition),
            message: view::text(found, &["message"]).trim().to_owned(),
            message_expression: found
                .get("messageExpression")
                .map(|_| compile(found, "messageExpression", Role::Message)),
            reason: view::text(found, &["reason"]).to_owned(),
        };
        let annotation = |found: &Value| {
            let key = view::text(found, &["key"]).to_owned();
            (key, compile(found, "valueExpression", Role::AuditValue))
        };
        Self {
            policy,
            validations: view::items(object, &["spec", "validations"]).iter().map(validation).collect(),
            audit_annotations: view::items(object, &["spec", "auditAnnotations"])
                .iter()
                .map(annotation)
                .collect(),
        }
    }
}

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub(super) struct Mutating {
    pub(super) policy: Policy,
    pub(super) mutations: Vec<Mutation>,
    /// True if the policy runs again after later plugins have changed the object.
    pub(super) is_reinvocable: bool,
}

/// One mutation.
#[derive(Debug)]
pub(super) enum Mutation {
    /// An apply configuration, which is merged into the object.
    ApplyConfiguration(Expression),
    /// JSON patch operations, which are applied to it.
    JsonPatch(Expression),
}

impl Mutating {
    pub(super) fn compile(object: &Value) -> Self {
        let (policy, expressions) = Policy::compile(object);
        let mutation = |found: &Value| {
            let compile = |field: &str, role| {
                Expression::compile(&expressions, view::text(found, &[field, "expression"]), role)
            };
            match view::text(found, &["patchType"]) {
                "JSONPatch" => Mutation::JsonPatch(compile("jsonPatch", Role::JsonPatch)),
                _ => Mutation::ApplyConfiguration(compile("applyConfiguration", Role::ApplyConfiguration)),
            }
        };
        Self {
            policy,
            mutations: view::items(object, &["spec", "mutations"]).iter().map(mutation).collect(),
            is_reinvocable: view::text(object, &["spec", "reinvocationPolicy"]) == "IfNeeded",
        }
    }
}

/// A binding: the scope and the parameters of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) matches: Option<MatchResources>,
    pub(super) param_ref: Option<Value>,
    /// The actions on a failed validation; for validating policies.
    pub(super) actions: Vec<String>,
}

impl Binding {
    pub(super) fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        let actions = view::items(spec, &["validationActions"]).iter();
        Self {
            name: view::name(object).to_owned(),
            policy: view::text(spec, &["policyName"]).to_owned(),
            matches: spec.get("matchResources").map(MatchResources::read),
            param_ref: spec.get("paramRef").cloned(),
            actions: actions.filter_map(|action| action.as_str().map(str::to_owned)).collect(),
        }
    }

    /// Returns the parameters with which the policy is evaluated for a request; empty if the binding does not match.
    ///
    /// # Errors
    /// If the binding is invalid.
    pub(super) async fn params(
        &self,
        kind: Option<&KindRef>,
        request: &PolicyRequest<'_>,
    ) -> Result<Params, String> {
        if let Some(matches) = &self.matches
            && matches.matches(request).await?.is_none()
        {
            return Ok(Vec::new());
        }
        params::collect(kind, self.param_ref.as_ref(), request).await
    }
}
