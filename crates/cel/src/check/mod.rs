//! Type checker: infers the type of every expression and the candidate overloads of calls.

mod calls;
mod unify;
mod validate;

use std::sync::Arc;

use crate::ast::{Element, Entry, Expr, ExprId, Field, Fold, Literal, Tree};
use crate::env::Env;
use crate::library::Overload;
use crate::source::{CompileError, Issues, Offset, Source};
use crate::types::Type;

use unify::{Substitution, most_general};

/// The declaration that an identifier or a call refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable of the environment or of a comprehension.
    Variable,
    /// The name of a type.
    Type(Type),
    /// The matching overloads; if there are several, dispatch happens at run time.
    Overloads(Vec<Arc<Overload>>),
}

/// A type-checked tree.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) tree: Tree,
    pub(crate) root: ExprId,
    types: Vec<Type>,
    references: Vec<Option<Reference>>,
}

impl Typed {
    pub(crate) fn type_of(&self, id: ExprId) -> &Type {
        &self.types[id.index()]
    }

    pub(crate) fn reference(&self, id: ExprId) -> Option<&Reference> {
        self.references[id.index()].as_ref()
    }

    pub(crate) fn overloads(&self, id: ExprId) -> &[Arc<Overload>] {
        match self.reference(id) {
            Some(Reference::Overloads(found)) => found,
            _ => &[],
        }
    }
}

/// Checks a tree.
///
/// # Errors
/// All type errors.
pub(crate) fn check(env: &Env, source: &Source, tree: Tree, root: ExprId) -> Result<Typed, CompileError> {
    let count = tree.len();
    let mut checker = Checker {
        env,
        tree,
        issues: Issues::new(source.clone()),
        types: vec![None; count],
        references: vec![None; count],
        scopes: Vec::new(),
        substitution: Substitution::default(),
        variables: 0,
    };
    checker.check(root);
    let Checker { tree, types, references, substitution, mut issues, .. } = checker;
    if !issues.is_empty() {
        return Err(issues.into_error());
    }
    let types =
        types.into_iter().map(|found| substitution.apply(&found.unwrap_or(Type::Dyn), true)).collect();
    let typed = Typed { tree, root, types, references };
    validate::validate(&typed, &mut issues);
    if issues.is_empty() { Ok(typed) } else { Err(issues.into_error()) }
}

struct Checker<'e> {
    env: &'e Env,
    tree: Tree,
    issues: Issues,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    /// Variables of the enclosing comprehensions, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    substitution: Substitution,
    variables: usize,
}

impl Checker<'_> {
    fn check(&mut self, id: ExprId) {
        match self.tree.expr(id).clone() {
            Expr::Unspecified => self.set_type(id, Type::Error),
            Expr::Literal(literal) => self.set_type(id, literal_type(&literal)),
            Expr::Ident(name) => self.ident(id, &name),
            Expr::Select { operand, field, test_only } => self.select(id, operand, &field, test_only),
            Expr::Call { function, target, args } => self.call(id, &function, target, &args),
            Expr::List(elements) => self.list(id, &elements),
            Expr::Map(entries) => self.map(id, &entries),
            Expr::Struct { name, fields } => self.object(id, &name, &fields),
            Expr::Fold(fold) => self.fold(id, &fold),
        }
    }

    fn report(&mut self, id: ExprId, message: String) {
        let offset = self.tree.offset(id);
        self.issues.report(offset, message);
    }

    fn set_type(&mut self, id: ExprId, found: Type) {
        self.types[id.index()] = Some(found);
    }

    fn type_of(&self, id: ExprId) -> Type {
        self.types[id.index()].clone().unwrap_or(Type::Error)
    }

    fn resolved(&self, id: ExprId) -> Type {
        self.substitution.apply(&self.type_of(id), false)
    }

    fn free_variable(&mut self) -> Type {
        let name = format!("_var{}", self.variables);
        self.variables += 1;
        Type::Param(name.into())
    }

    /// Resolves a name to a variable of a comprehension, a variable of the environment, or a type.
    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.scopes.iter().rev().find(|(found, _)| &**found == name);
        if let Some(found) = local.map(|(_, found)| found).or_else(|| self.env.variable_type(name)) {
            return Some((found.clone(), Reference::Variable));
        }
        let named =
            if self.env.has_type(name) { Some(Type::object(name)) } else { Type::by_identifier(name) };
        named.map(|named| (Type::type_of(named.clone()), Reference::Type(named)))
    }

    fn ident(&mut self, id: ExprId, name: &str) {
        match self.lookup(name) {
            Some((found, reference)) => self.refer(id, name, found, reference),
            None => {
                self.undeclared(id, name);
            }
        }
    }

    fn refer(&mut self, id: ExprId, name: &str, found: Type, reference: Reference) {
        self.set_type(id, found);
        self.references[id.index()] = Some(reference);
        self.tree.replace(id, Expr::Ident(name.strip_prefix('.').unwrap_or(name).into()));
    }

    fn undeclared(&mut self, id: ExprId, name: &str) {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        self.set_type(id, Type::Error);
    }

    fn select(&mut self, id: ExprId, operand: ExprId, field: &Arc<str>, test_only: bool) {
        if !test_only
            && let Some(name) = self.tree.qualified_name(id)
            && let Some((found, reference)) = self.lookup(&name)
        {
            return self.refer(id, &name, found, reference);
        }
        let found = self.select_field(id, operand, field, false);
        let found = if test_only { Type::Bool } else { self.substitution.apply(&found, false) };
        self.set_type(id, found);
    }

    /// Returns the type of a field.
    fn select_field(&mut self, id: ExprId, operand: ExprId, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.resolved(operand);
        let target = operand_type.as_optional().unwrap_or(&operand_type);
        let found = match target {
            Type::Map(_, values) => (**values).clone(),
            Type::Struct(name) => self.field_type(self.tree.offset(id), name, field),
            Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        let wrap = optional || operand_type.as_optional().is_some();
        if wrap { Type::optional(found) } else { found }
    }

    fn field_type(&mut self, offset: Offset, type_name: &str, field: &str) -> Type {
        if let Some(found) = self.env.field_type(type_name, field) {
            return found;
        }
        let message = if self.env.has_type(type_name) {
            format!("undefined field '{field}'")
        } else {
            format!("unexpected failed resolution of '{type_name}'")
        };
        self.issues.report(offset, message);
        Type::Error
    }

    /// Returns the type inside an optional element; reports an error if it is not optional.
    fn unwrap_optional(&mut self, id: ExprId) -> Type {
        let found = self.type_of(id);
        match found.as_optional() {
            Some(inner) => inner.clone(),
            None => {
                if !found.is_dyn() {
                    self.mismatch(id, &Type::optional(found.clone()), &found);
                }
                found
            }
        }
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn join(&mut self, so_far: Option<Type>, found: Type) -> Type {
        match so_far {
            None => found,
            Some(so_far) if self.substitution.assignable(&so_far, &found) => most_general(&so_far, &found),
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, id: ExprId, elements: &[Element]) {
        let mut joined = None;
        for element in elements {
            self.check(element.value);
            let found = if element.optional {
                self.unwrap_optional(element.value)
            } else {
                self.type_of(element.value)
            };
            joined = Some(self.join(joined, found));
        }
        let elements = joined.unwrap_or_else(|| self.free_variable());
        self.set_type(id, Type::list(elements));
    }

    fn map(&mut self, id: ExprId, entries: &[Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(entry.key);
            keys = Some(self.join(keys, self.type_of(entry.key)));
            self.check(entry.value);
            let found =
                if entry.optional { self.unwrap_optional(entry.value) } else { self.type_of(entry.value) };
            values = Some(self.join(values, found));
        }
        let keys = keys.unwrap_or_else(|| self.free_variable());
        let values = values.unwrap_or_else(|| self.free_variable());
        self.set_type(id, Type::map(keys, values));
    }

    fn object(&mut self, id: ExprId, name: &str, fields: &[Field]) {
        let Some((found, _)) = self.lookup(name) else { return self.undeclared(id, name) };
        let result = match &found {
            Type::Type(Some(inner)) => match &**inner {
                named @ Type::Struct(_) => named.clone(),
                other => {
                    self.report(id, format!("'{}' is not a message type", other.name()));
                    Type::Error
                }
            },
            Type::Error => Type::Error,
            other => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.set_type(id, result.clone());
        for field in fields {
            self.check(field.value);
            let expected = match &result {
                Type::Struct(name) => self.field_type(field.offset, name, &field.name),
                _ => self.field_type(field.offset, name, &field.name),
            };
            let found =
                if field.optional { self.unwrap_optional(field.value) } else { self.type_of(field.value) };
            if !self.substitution.assignable(&expected, &found) {
                let message = format!(
                    "expected type of field '{}' is '{expected}' but provided type is '{found}'",
                    field.name
                );
                self.issues.report(field.offset, message);
            }
        }
    }

    fn fold(&mut self, id: ExprId, fold: &Fold) {
        self.check(fold.range);
        self.check(fold.init);
        let range = self.resolved(fold.range);
        let accumulated = self.type_of(fold.init);
        let depth = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulated.clone()));
        let two = fold.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(elements) if two => (Type::Int, (**elements).clone()),
            Type::List(elements) => ((**elements).clone(), Type::Dyn),
            Type::Map(keys, values) => ((**keys).clone(), (**values).clone()),
            Type::Dyn | Type::Any | Type::Error | Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second_variable {
            self.scopes.push((name.clone(), second));
        }
        self.check(fold.condition);
        self.assert_type(fold.condition, &Type::Bool);
        self.check(fold.step);
        self.assert_type(fold.step, &accumulated);
        self.scopes.truncate(depth + 1);
        self.check(fold.result);
        self.scopes.truncate(depth);
        let result = self.resolved(fold.result);
        self.set_type(id, result);
    }

    fn assert_type(&mut self, id: ExprId, expected: &Type) {
        let found = self.type_of(id);
        if !self.substitution.assignable(expected, &found) {
            self.mismatch(id, expected, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
