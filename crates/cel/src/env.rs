//! Environments: the variables, types and functions available to expressions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::check::check;
use crate::checked::Checked;
use crate::decl::Decl;
use crate::library::{BASE, Declaration, JSON_PATCH, declare};
use crate::program::Program;
use crate::provider::{DeclaredTypes, TypeProvider};
use crate::source::{CompileError, Source};
use crate::syntax::{Dialect, parse};
use crate::types::Type;

type Functions = HashMap<&'static str, Declaration>;

/// The functions of the base environment, shared by all.
static BASE_FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(functions(BASE)));

fn functions(libraries: &[&[crate::library::Function]]) -> Functions {
    let mut declared = Vec::new();
    for library in libraries {
        declare(library, &mut declared);
    }
    declared.into_iter().map(|declaration| (declaration.name, declaration)).collect()
}

/// The variables, types and functions available to expressions. Cheap to extend and to clone.
#[derive(Clone)]
pub struct Env {
    functions: Arc<Functions>,
    variables: Vec<(Arc<str>, Type)>,
    declared: Arc<DeclaredTypes>,
    provider: Option<Arc<dyn TypeProvider>>,
    dialect: Dialect,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Env {
    /// Returns the base environment of Kubernetes 1.36: all its libraries and no variables. New and
    /// stored expressions use the same environment; none of its libraries is newer than what 1.36
    /// allows for new ones.
    pub fn kubernetes() -> Self {
        Self {
            functions: BASE_FUNCTIONS.clone(),
            variables: Vec::new(),
            declared: Arc::default(),
            provider: None,
            dialect: Dialect::default(),
        }
    }

    /// Adds a variable. Its name may contain dots, such as `authorizer.requestResource`.
    #[must_use]
    pub fn variable(mut self, name: &str, of: Type) -> Self {
        self.variables.retain(|(existing, _)| &**existing != name);
        self.variables.push((name.into(), of));
        self
    }

    /// Adds a variable that holds objects of a declaration. Types in it without a name are named
    /// after their path in `type_name`, which appears in messages.
    #[must_use]
    pub fn declared_variable(mut self, name: &str, type_name: &str, decl: &Decl) -> Self {
        let of = Arc::make_mut(&mut self.declared).add(type_name, decl);
        self.variable(name, of)
    }

    /// Adds the types of a declaration, without a variable.
    #[must_use]
    pub fn declared_types(mut self, type_name: &str, decl: &Decl) -> Self {
        Arc::make_mut(&mut self.declared).add(type_name, decl);
        self
    }

    /// Adds types, such as [`crate::MutationTypes`].
    #[must_use]
    pub fn types(mut self, provider: Arc<dyn TypeProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Adds `jsonpatch.escapeKey`, which is available in mutating policies only.
    #[must_use]
    pub fn json_patch(mut self) -> Self {
        static WITH_JSON_PATCH: LazyLock<Arc<Functions>> =
            LazyLock::new(|| Arc::new(functions(&[BASE, &[JSON_PATCH]].concat())));
        self.functions = WITH_JSON_PATCH.clone();
        self
    }

    /// Adds the macro `cel.bind`, which is available in expressions for devices only.
    #[must_use]
    pub fn bindings(mut self) -> Self {
        self.dialect.bindings = true;
        self
    }

    /// Enables field names in backticks, which Kubernetes does not support so far.
    #[must_use]
    pub fn escaped_identifiers(mut self) -> Self {
        self.dialect.escaped_identifiers = true;
        self
    }

    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// All syntax or type errors.
    pub fn check(&self, expression: &str) -> Result<Checked, CompileError> {
        let source = Source::new(expression);
        let (tree, root) = parse(&source, self.dialect)?;
        let typed = check(self, &source, tree, root)?;
        Ok(Checked::new(typed, self.provider.clone()))
    }

    /// Compiles an expression to a program.
    ///
    /// # Errors
    /// All syntax or type errors.
    pub fn compile(&self, expression: &str) -> Result<Program, CompileError> {
        self.check(expression)?.program()
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(existing, _)| &**existing == name).map(|(_, of)| of)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Declaration> {
        self.functions.get(name)
    }

    pub(crate) fn has_type(&self, name: &str) -> bool {
        self.declared.has_type(name) || self.provider.as_ref().is_some_and(|provider| provider.has_type(name))
    }

    pub(crate) fn field_type(&self, type_name: &str, field: &str) -> Option<Type> {
        let declared = self.declared.field_type(type_name, field);
        declared.or_else(|| self.provider.as_ref()?.field_type(type_name, field))
    }
}
