//! Environments and result types for the expressions of admission policies.
//!
//! Validation of policies and admission both compile expressions here, so that a policy with an
//! invalid expression is rejected.

use std::sync::{Arc, LazyLock};

use crate::{Checked, CompileError, Decl, Env, FieldDecl, ListKind, MutationTypes, Shape, Type};

/// Variable with the new object.
pub const OBJECT: &str = "object";
/// Variable with the old object.
pub const OLD_OBJECT: &str = "oldObject";
/// Variable with the admission request.
pub const REQUEST: &str = "request";
/// Variable with the namespace of the object.
pub const NAMESPACE_OBJECT: &str = "namespaceObject";
/// Variable with the parameter object of a binding.
pub const PARAMS: &str = "params";
/// Variable for authorization checks.
pub const AUTHORIZER: &str = "authorizer";
/// Variable for authorization checks of the request's resource.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// Variable with the policy's `variables`.
pub const VARIABLES: &str = "variables";

const AUTHORIZER_TYPE: &str = "kubernetes.authorization.Authorizer";

/// The role of an expression in a policy, which determines its variables and result types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A condition, such as a validation or match condition.
    Condition,
    /// A `messageExpression`.
    Message,
    /// The `valueExpression` of an audit annotation.
    AuditValue,
    /// The expression of a variable.
    Variable,
    /// An apply configuration of a mutating policy.
    ApplyConfiguration,
    /// A JSON patch of a mutating policy.
    JsonPatch,
}

impl Role {
    /// Returns the allowed result types; empty if any type is allowed.
    fn types(self) -> Vec<Type> {
        match self {
            Self::Condition => vec![Type::Bool],
            Self::Message => vec![Type::String],
            Self::AuditValue => vec![Type::String, Type::Null],
            Self::Variable => Vec::new(),
            Self::ApplyConfiguration => vec![Type::object("Object")],
            Self::JsonPatch => vec![Type::list(Type::object("JSONPatch"))],
        }
    }

    fn is_mutation(self) -> bool {
        matches!(self, Self::ApplyConfiguration | Self::JsonPatch)
    }
}

/// The environment of the expressions of one policy.
#[derive(Clone, Debug)]
pub struct PolicyExpressions {
    env: Env,
    has_variables: bool,
    /// The `variables` declared so far.
    variables: Vec<(String, Decl)>,
}

impl PolicyExpressions {
    /// Creates the environment of a policy with or without parameters.
    pub fn new(has_params: bool) -> Self {
        let mut env = Env::kubernetes()
            .variable(OBJECT, Type::Dyn)
            .variable(OLD_OBJECT, Type::Dyn)
            .declared_variable(REQUEST, "kubernetes.AdmissionRequest", request())
            .declared_variable(NAMESPACE_OBJECT, "kubernetes.Namespace", namespace());
        if has_params {
            env = env.variable(PARAMS, Type::Dyn);
        }
        Self { env, has_variables: false, variables: Vec::new() }
    }

    /// Declares the schema of the objects.
    #[must_use]
    pub fn with_object_type(mut self, kind: &str, decl: &Decl) -> Self {
        for variable in [OBJECT, OLD_OBJECT] {
            self.env = self.env.declared_variable(variable, kind, decl);
        }
        self
    }

    /// Declares the schema of the parameters.
    #[must_use]
    pub fn with_params_type(mut self, kind: &str, decl: &Decl) -> Self {
        self.env = self.env.declared_variable(PARAMS, &format!("params.{kind}"), decl);
        self
    }

    /// Type-checks an expression without a role, as the controller for status warnings does:
    /// variables of specific roles are not available, and any result type is allowed.
    ///
    /// # Errors
    /// The type errors.
    pub fn check_types(&self, expression: &str) -> Result<Checked, CompileError> {
        let env = self.env.clone().variable(AUTHORIZER, Type::object(AUTHORIZER_TYPE));
        self.with_variables(env).check(expression)
    }

    /// Makes `variables` available to the following expressions, even if it has no fields.
    pub fn declare_variables(&mut self) {
        self.has_variables = true;
    }

    /// Declares a variable of the policy with the type of its expression; `None` if that did not
    /// compile.
    pub fn name(&mut self, name: &str, of: Option<&Type>) {
        let decl = of.map_or_else(|| Decl::anything().clone(), declaration);
        self.has_variables = true;
        self.variables.push((name.to_owned(), decl));
    }

    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// The error, in kube-apiserver's wording.
    pub fn check(&self, expression: &str, role: Role) -> Result<Checked, String> {
        let checked = self.env_of(role).check(expression);
        let checked = checked.map_err(|error| format!("compilation failed: {error}"))?;
        let (types, found) = (role.types(), checked.output_type());
        if types.is_empty() || types.contains(found) {
            return Ok(checked);
        }
        Err(match types.as_slice() {
            [only] => format!("must evaluate to {only} but got {found}"),
            _ => {
                let names: Vec<String> = types.iter().map(go_name).collect();
                format!("must evaluate to one of [{}] but got {found}", names.join(" "))
            }
        })
    }

    fn env_of(&self, role: Role) -> Env {
        let mut env = self.env.clone();
        if role != Role::Message {
            env = env
                .variable(AUTHORIZER, Type::object(AUTHORIZER_TYPE))
                .variable(REQUEST_RESOURCE, Type::object("kubernetes.authorization.ResourceCheck"));
        }
        if role.is_mutation() {
            env = env.types(Arc::new(MutationTypes)).json_patch();
        }
        if self.has_variables { self.with_variables(env) } else { env }
    }

    fn with_variables(&self, env: Env) -> Env {
        let fields =
            self.variables.iter().filter_map(|(name, decl)| FieldDecl::new(name, decl.clone(), true));
        env.declared_variable(
            VARIABLES,
            "kubernetes.variables",
            &Decl::named_object("kubernetes.variables", fields),
        )
    }
}

fn go_name(of: &Type) -> String {
    if *of == Type::Null { "null_type".to_owned() } else { of.to_string() }
}

/// Returns the declaration of a variable's type, with as much detail as Kubernetes preserves.
fn declaration(of: &Type) -> Decl {
    match of {
        Type::Bool => Decl::scalar(Shape::Bool),
        Type::Int => Decl::scalar(Shape::Int),
        Type::Double => Decl::scalar(Shape::Double),
        Type::String => Decl::scalar(Shape::String),
        Type::Bytes => Decl::scalar(Shape::Bytes),
        Type::Duration => Decl::scalar(Shape::Duration),
        Type::Timestamp => Decl::scalar(Shape::DateTime),
        Type::List(items) => Decl::list(declaration(items), ListKind::Atomic, None),
        Type::Map(keys, values) if **keys == Type::String => Decl::map(declaration(values), None),
        _ => Decl::anything().clone(),
    }
}

/// Creates fields, all required or all optional.
fn fields(required: bool, fields: &[(&str, &Decl)]) -> Vec<FieldDecl> {
    let field = |(name, decl): &(&str, &Decl)| FieldDecl::new(name, (*decl).clone(), required);
    fields.iter().filter_map(field).collect()
}

/// The declaration of `AdmissionRequest`, without the objects, which are separate variables.
pub fn request() -> &'static Decl {
    static REQUEST: LazyLock<Decl> = LazyLock::new(|| {
        let text = Decl::scalar(Shape::String);
        let texts = Decl::list(text.clone(), ListKind::Atomic, None);
        let of = |name: &str, last: &str| {
            let parts = fields(true, &[("group", &text), ("version", &text), (last, &text)]);
            Decl::named_object(name, parts)
        };
        let (kind, resource) =
            (of("kubernetes.GroupVersionKind", "kind"), of("kubernetes.GroupVersionResource", "resource"));
        let user = Decl::named_object(
            "kubernetes.UserInfo",
            fields(
                false,
                &[
                    ("username", &text),
                    ("uid", &text),
                    ("groups", &texts),
                    ("extra", &Decl::map(texts.clone(), None)),
                ],
            ),
        );
        let mut parts = fields(
            true,
            &[
                ("kind", &kind),
                ("resource", &resource),
                ("requestKind", &kind),
                ("requestResource", &resource),
                ("name", &text),
                ("operation", &text),
                ("userInfo", &user),
            ],
        );
        parts.extend(fields(
            false,
            &[
                ("subResource", &text),
                ("requestSubResource", &text),
                ("namespace", &text),
                ("dryRun", &Decl::scalar(Shape::Bool)),
                ("options", Decl::anything()),
            ],
        ));
        Decl::named_object("kubernetes.AdmissionRequest", parts)
    });
    &REQUEST
}

/// The declaration of `Namespace`, without some of its metadata.
pub fn namespace() -> &'static Decl {
    static NAMESPACE: LazyLock<Decl> = LazyLock::new(|| {
        let (text, time) = (Decl::scalar(Shape::String), Decl::scalar(Shape::DateTime));
        let number = Decl::scalar(Shape::Int);
        let list = |items: &Decl| Decl::list(items.clone(), ListKind::Atomic, None);
        let (texts, pairs) = (list(&text), Decl::map(text.clone(), None));
        let condition = Decl::named_object(
            "kubernetes.NamespaceCondition",
            fields(
                true,
                &[
                    ("status", &text),
                    ("type", &text),
                    ("lastTransitionTime", &time),
                    ("message", &text),
                    ("reason", &text),
                ],
            ),
        );
        let status = fields(true, &[("conditions", &list(&condition)), ("phase", &text)]);
        let metadata = fields(
            true,
            &[
                ("name", &text),
                ("generateName", &text),
                ("namespace", &text),
                ("labels", &pairs),
                ("annotations", &pairs),
                ("UID", &text),
                ("creationTimestamp", &time),
                ("deletionGracePeriodSeconds", &number),
                ("deletionTimestamp", &time),
                ("generation", &number),
                ("resourceVersion", &text),
                ("finalizers", &texts),
            ],
        );
        Decl::named_object(
            "kubernetes.Namespace",
            fields(
                true,
                &[
                    ("metadata", &Decl::named_object("kubernetes.NamespaceMetadata", metadata)),
                    (
                        "spec",
                        &Decl::named_object(
                            "kubernetes.NamespaceSpec",
                            fields(true, &[("finalizers", &texts)]),
                        ),
                    ),
                    ("status", &Decl::named_object("kubernetes.NamespaceStatus", status)),
                ],
            ),
        )
    });
    &NAMESPACE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, role: Role) -> Result<(), String> {
        PolicyExpressions::new(false).check(expression, role).map(|_| ())
    }

    #[test]
    fn undeclared_policy_variable_is_rejected() {
        let mut expressions = PolicyExpressions::new(false);
        let fault =
            |expressions: &PolicyExpressions| expressions.check("variables.a", Role::Condition).unwrap_err();
        assert!(fault(&expressions).contains("undeclared reference to 'variables'"));
        expressions.declare_variables();
        assert!(fault(&expressions).contains("undefined field 'a'"));
    }

    #[test]
    fn expression_with_wrong_result_type_is_rejected() {
        assert_eq!(check("object.spec.replicas > 1", Role::Condition), Ok(()));
        assert_eq!(check("'a'", Role::Condition).unwrap_err(), "must evaluate to bool but got string");
        assert_eq!(check("'a' + request.name", Role::Message), Ok(()));
        assert_eq!(check("null", Role::AuditValue), Ok(()));
        let error = check("1", Role::AuditValue).unwrap_err();
        assert_eq!(error, "must evaluate to one of [string null_type] but got int");
        assert_eq!(check("Object{spec: Object.spec{replicas: 1}}", Role::ApplyConfiguration), Ok(()));
        let patch =
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]";
        assert_eq!(check(patch, Role::JsonPatch), Ok(()));
        assert!(check(patch, Role::Condition).is_err());
    }

    #[test]
    fn reference_to_unavailable_variable_is_rejected() {
        let error = check("params.x == 1", Role::Condition).unwrap_err();
        assert!(error.contains("undeclared reference to 'params'"), "{error}");
        assert!(PolicyExpressions::new(true).check("params.x == 1", Role::Condition).is_ok());
        let asks = "authorizer.requestResource.check('get').allowed()";
        assert_eq!(check(asks, Role::Condition), Ok(()));
        assert!(check("authorizer.requestResource.check('get').reason()", Role::Message).is_err());
        assert!(check("request.nonsense == ''", Role::Condition).is_err());
        assert_eq!(check("namespaceObject.metadata.labels['a'] == 'b'", Role::Condition), Ok(()));
    }

    #[test]
    fn named_variable_has_type_of_its_expression() {
        let mut expressions = PolicyExpressions::new(false);
        let names = expressions.check("['a']", Role::Variable).unwrap();
        expressions.name("names", Some(names.output_type()));
        assert!(expressions.check("variables.names.size() == 1", Role::Condition).is_ok());
        assert!(expressions.check("variables.names + 1 == 2", Role::Condition).is_err());
        assert!(expressions.check("variables.other == 2", Role::Condition).is_err());
    }
}
