//! The values of variables.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::EvalError;
use crate::budget::Budget;
use crate::decl::Decl;
use crate::program::Program;
use crate::value::Value;

/// Where a program finds the values of its variables.
pub trait Activation<'d> {
    /// The value of a variable; none if it has none.
    fn variable(&self, name: &str) -> Option<Value<'d>>;

    /// A field of an object that is [`Value::Lazy`]; none if it has no such field. What it costs is the
    /// budget's.
    fn lazy_field(
        &self,
        object: &str,
        field: &str,
        budget: &mut Budget,
    ) -> Option<Result<Value<'d>, EvalError>> {
        let _ = (object, field, budget);
        None
    }

    /// Whether nobody waits for the answer any more. Asked between rounds of comprehensions.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Variables with values.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'d> {
    values: Vec<(&'d str, Value<'d>)>,
}

impl<'d> Bindings<'d> {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a value for a variable.
    #[must_use]
    pub fn with(mut self, name: &'d str, value: Value<'d>) -> Self {
        self.bind(name, value);
        self
    }

    /// With an object for a variable, read as it is declared.
    ///
    /// # Errors
    /// If it is not what was declared.
    pub fn with_json(self, name: &'d str, json: &'d Json, decl: &'d Decl) -> Result<Self, EvalError> {
        Ok(self.with(name, Value::from_json(json, decl)?))
    }

    /// Sets the value of a variable.
    pub fn bind(&mut self, name: &'d str, value: Value<'d>) {
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.values.push((name, value)),
        }
    }
}

impl<'d> Activation<'d> for Bindings<'d> {
    fn variable(&self, name: &str) -> Option<Value<'d>> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }
}

/// Bindings, and an object whose fields are programs: each is evaluated when it is first read, with the same
/// bindings and the fields before it.
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
    /// An object of a name, such as `variables`, without fields so far.
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
        let at = self.fields.iter().position(|known| &*known.name == field)?;
        let found = &self.fields[at];
        if let Some(value) = found.value.get() {
            return Some(value.clone());
        }
        let earlier = Earlier { variables: self, count: at };
        let value = found.program.evaluate(&earlier, budget);
        Some(found.value.get_or_init(|| value).clone())
    }
}

/// The fields before one: a field cannot read itself, which would never end.
struct Earlier<'a, 'd> {
    variables: &'a Variables<'d>,
    count: usize,
}

impl<'d> Activation<'d> for Earlier<'_, 'd> {
    fn variable(&self, name: &str) -> Option<Value<'d>> {
        self.variables.variable(name)
    }

    fn lazy_field(
        &self,
        object: &str,
        field: &str,
        budget: &mut Budget,
    ) -> Option<Result<Value<'d>, EvalError>> {
        let known = self.variables.fields[..self.count].iter().any(|known| &*known.name == field);
        if known { self.variables.lazy_field(object, field, budget) } else { None }
    }
}
