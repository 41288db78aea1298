//! Activations: the values of variables during evaluation.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::EvalError;
use crate::budget::Budget;
use crate::decl::Decl;
use crate::program::Program;
use crate::value::Value;

/// Resolves the variables of a program.
pub trait Activation<'d> {
    /// Returns the value of a variable; `None` if it has none.
    fn variable(&self, name: &str) -> Option<Value<'d>>;

    /// Returns a field of a [`Value::Lazy`] object; `None` if it has no such field. Evaluating the
    /// field is charged to `budget`.
    fn lazy_field(
        &self,
        object: &str,
        field: &str,
        budget: &mut Budget,
    ) -> Option<Result<Value<'d>, EvalError>> {
        let _ = (object, field, budget);
        None
    }

    /// Returns true if the evaluation was cancelled. Checked between iterations of comprehensions.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// An activation of variables with values.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'d> {
    values: Vec<(&'d str, Value<'d>)>,
}

impl<'d> Bindings<'d> {
    /// Creates an activation without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'d str, value: Value<'d>) -> Self {
        self.bind(name, value);
        self
    }

    /// Adds a variable whose value is a JSON object of this declaration.
    ///
    /// # Errors
    /// If the object does not match the declaration.
    pub fn with_json(self, name: &'d str, json: &'d Json, decl: &'d Decl) -> Result<Self, EvalError> {
        Ok(self.with(name, Value::from_json(json, decl)?))
    }

    /// Sets the value of a variable.
    pub fn bind(&mut self, name: &'d str, value: Value<'d>) {
        match self.values.iter_mut().find(|(existing, _)| *existing == name) {
            Some((_, existing)) => *existing = value,
            None => self.values.push((name, value)),
        }
    }
}

impl<'d> Activation<'d> for Bindings<'d> {
    fn variable(&self, name: &str) -> Option<Value<'d>> {
        self.values.iter().find(|(existing, _)| *existing == name).map(|(_, value)| value.clone())
    }
}

/// An activation with an object whose fields are programs, such as `variables` of a policy. Each
/// field is evaluated when it is first read, with the same bindings and the fields before it.
#[derive(Debug)]
pub struct Variables<'d> {
    bindings: Bindings<'d>,
    object: &'d str,
    fields: Vec<Field<'d>>,
}

#[derive(Debug)]
struct Field<'d> {
    name: Arc<str>,
    program: &'d Program,
    value: OnceCell<Result<Value<'d>, EvalError>>,
}

impl<'d> Variables<'d> {
    /// Creates an activation with an object of this name, such as `variables`, without fields.
    pub fn new(bindings: Bindings<'d>, object: &'d str) -> Self {
        Self { bindings, object, fields: Vec::new() }
    }

    /// Adds a field.
    pub fn field(&mut self, name: &str, program: &'d Program) {
        self.fields.push(Field { name: name.into(), program, value: OnceCell::new() });
    }
}

impl<'d> Activation<'d> for Variables<'d> {
    fn variable(&self, name: &str) -> Option<Value<'d>> {
        if name == self.object { Some(Value::Lazy(self.object)) } else { self.bindings.variable(name) }
    }

    fn lazy_field(
        &self,
        object: &str,
        field: &str,
        budget: &mut Budget,
    ) -> Option<Result<Value<'d>, EvalError>> {
        if object != self.object {
            return None;
        }
        let at = self.fields.iter().position(|existing| &*existing.name == field)?;
        let entry = &self.fields[at];
        if let Some(value) = entry.value.get() {
            return Some(value.clone());
        }
        let earlier = EarlierFields { variables: self, count: at };
        let value = entry.program.evaluate(&earlier, budget);
        Some(entry.value.get_or_init(|| value).clone())
    }
}

/// Restricts the object to the fields before one: a field that could read itself would recurse
/// forever.
struct EarlierFields<'a, 'd> {
    variables: &'a Variables<'d>,
    count: usize,
}

impl<'d> Activation<'d> for EarlierFields<'_, 'd> {
    fn variable(&self, name: &str) -> Option<Value<'d>> {
        self.variables.variable(name)
    }

    fn lazy_field(
        &self,
        object: &str,
        field: &str,
        budget: &mut Budget,
    ) -> Option<Result<Value<'d>, EvalError>> {
        let existing = self.variables.fields[..self.count].iter().any(|existing| &*existing.name == field);
        if existing { self.variables.lazy_field(object, field, budget) } else { None }
    }
}
