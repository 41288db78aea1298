//! The expressions of admission policies: what they may refer to, and what they must evaluate to.
//!
//! Policies are refused with expressions that cannot be compiled, and evaluated by admission; both
//! compile here.

use std::sync::{Arc, LazyLock};

use crate::{Checked, CompileError, Decl, Env, FieldDecl, ListKind, MutationTypes, Shape, Type};

/// The variable that holds the object as it is to be.
pub const OBJECT: &str = "object";
/// The variable that holds the object as it is.
pub const OLD_OBJECT: &str = "oldObject";
/// The variable that describes the request.
pub const REQUEST: &str = "request";
/// The variable that holds the namespace of the object.
pub const NAMESPACE_OBJECT: &str = "namespaceObject";
/// The variable that holds the parameters of a binding.
pub const PARAMS: &str = "params";
/// The variable that answers who may do what.
pub const AUTHORIZER: &str = "authorizer";
/// The variable that answers what may be done with the object itself.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// The variable that holds what the policy itself has named.
pub const VARIABLES: &str = "variables";

const AUTHORIZER_TYPE: &str = "kubernetes.authorization.Authorizer";

/// What an expression is for, which decides what it may refer to and must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Tells whether something holds.
    Condition,
    /// Words a refusal.
    Message,
    /// Makes the value of an audit annotation.
    AuditValue,
    /// Is given a name for others to use.
    Variable,
    /// Makes a configuration that is merged into the object.
    ApplyConfiguration,
    /// Makes a list of changes to the object.
    JsonPatch,
}

impl Role {
    /// The types it may evaluate to; none for any.
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

    fn patches(self) -> bool {
        matches!(self, Self::ApplyConfiguration | Self::JsonPatch)
    }
}

/// What the expressions of one policy may refer to.
#[derive(Clone, Debug)]
pub struct PolicyExpressions {
    env: Env,
    has_variables: bool,
    /// What the policy itself has named so far, if it may name anything.
    variables: Vec<(String, Decl)>,
}

impl PolicyExpressions {
    /// Of a policy with or without parameters.
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

    /// For objects of a kind of which is known what they look like.
    #[must_use]
    pub fn with_object_type(mut self, kind: &str, decl: &Decl) -> Self {
        for variable in [OBJECT, OLD_OBJECT] {
            self.env = self.env.declared_variable(variable, kind, decl);
        }
        self
    }

    /// For parameters of a kind of which is known what they look like.
    #[must_use]
    pub fn with_params_type(mut self, kind: &str, decl: &Decl) -> Self {
        self.env = self.env.declared_variable(PARAMS, &format!("params.{kind}"), decl);
        self
    }

    /// Reads an expression and checks its types, whatever it is for: what only the evaluation of some
    /// expressions knows is not there, and any value will do.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_types(&self, expression: &str) -> Result<Checked, CompileError> {
        let env = self.env.clone().variable(AUTHORIZER, Type::object(AUTHORIZER_TYPE));
        self.with_variables(env).check(expression)
    }

    /// Lets the expressions that follow refer to `variables`, even to those that turn out not to be declared.
    pub fn declare_variables(&mut self) {
        self.has_variables = true;
    }

    /// With a name for an expression; of one that could not be compiled, nothing is known.
    pub fn name(&mut self, name: &str, of: Option<&Type>) {
        let decl = of.map_or_else(|| Decl::anything().clone(), declaration);
        self.has_variables = true;
        self.variables.push((name.to_owned(), decl));
    }

    /// Reads and checks an expression.
    ///
    /// # Errors
    /// What is wrong with it, in upstream's words.
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
        if role.patches() {
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

/// What is known of the value of a named expression: as much as upstream remembers.
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

/// Named fields, all of them required or none.
fn fields(required: bool, fields: &[(&str, &Decl)]) -> Vec<FieldDecl> {
    let field = |(name, decl): &(&str, &Decl)| FieldDecl::new(name, (*decl).clone(), required);
    fields.iter().filter_map(field).collect()
}

/// `AdmissionRequest`, but for the objects, which are variables of their own.
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

/// `Namespace`, but for some of its metadata.
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
    fn declared_variables_have_only_the_fields_that_are_named() {
        let mut expressions = PolicyExpressions::new(false);
        let fault =
            |expressions: &PolicyExpressions| expressions.check("variables.a", Role::Condition).unwrap_err();
        assert!(fault(&expressions).contains("undeclared reference to 'variables'"));
        expressions.declare_variables();
        assert!(fault(&expressions).contains("undefined field 'a'"));
    }

    #[test]
    fn expressions_evaluate_to_what_they_are_for() {
        assert_eq!(check("object.spec.replicas > 1", Role::Condition), Ok(()));
        assert_eq!(check("'a'", Role::Condition).unwrap_err(), "must evaluate to bool but got string");
        assert_eq!(check("'a' + request.name", Role::Message), Ok(()));
        assert_eq!(check("null", Role::AuditValue), Ok(()));
        let refused = check("1", Role::AuditValue).unwrap_err();
        assert_eq!(refused, "must evaluate to one of [string null_type] but got int");
        assert_eq!(check("Object{spec: Object.spec{replicas: 1}}", Role::ApplyConfiguration), Ok(()));
        let patch =
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]";
        assert_eq!(check(patch, Role::JsonPatch), Ok(()));
        assert!(check(patch, Role::Condition).is_err());
    }

    #[test]
    fn only_what_is_there_can_be_referred_to() {
        let refused = check("params.x == 1", Role::Condition).unwrap_err();
        assert!(refused.contains("undeclared reference to 'params'"), "{refused}");
        assert!(PolicyExpressions::new(true).check("params.x == 1", Role::Condition).is_ok());
        let asks = "authorizer.requestResource.check('get').allowed()";
        assert_eq!(check(asks, Role::Condition), Ok(()));
        assert!(check("authorizer.requestResource.check('get').reason()", Role::Message).is_err());
        assert!(check("request.nonsense == ''", Role::Condition).is_err());
        assert_eq!(check("namespaceObject.metadata.labels['a'] == 'b'", Role::Condition), Ok(()));
    }

    #[test]
    fn what_is_named_has_its_type() {
        let mut expressions = PolicyExpressions::new(false);
        let names = expressions.check("['a']", Role::Variable).unwrap();
        expressions.name("names", Some(names.output_type()));
        assert!(expressions.check("variables.names.size() == 1", Role::Condition).is_ok());
        assert!(expressions.check("variables.names + 1 == 2", Role::Condition).is_err());
        assert!(expressions.check("variables.other == 2", Role::Condition).is_err());
    }
}
