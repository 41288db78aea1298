//! Validation of objects against their schema, as far as merging depends on it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type, TypeError, TypeErrors};
use crate::apply::fields_v1::MAX_DEPTH;
use crate::apply::go_format;
use crate::apply::path_element::PathElement;
use crate::schema::Scalar;

/// Maximum number of reported errors; a request can contain as many as it has bytes.
const MAX_ERRORS: usize = 1_000;

/// Strictness of validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// For applied configurations: items have unique keys, and all fields are declared.
    Applied,
    /// For stored objects and other writes: items may have equal keys, and fields may be
    /// undeclared.
    Stored,
}

impl Type<'_> {
    /// Checks that a value has this type.
    ///
    /// # Errors
    /// If the value does not have this type, or is nested too deeply.
    pub fn validate(self, value: &Value, strictness: Strictness) -> Result<(), TypeErrors> {
        let mut check = Check { strictness, errors: Vec::new() };
        check.value(self, value, MAX_DEPTH);
        if check.errors.is_empty() { Ok(()) } else { Err(TypeErrors(check.errors)) }
    }
}

struct Check {
    strictness: Strictness,
    errors: Vec<TypeError>,
}

impl Check {
    fn value(&mut self, ty: Type<'_>, value: &Value, depth: usize) {
        let Some(below) = depth.checked_sub(1) else {
            return self.error(format!("nested more than {MAX_DEPTH} levels deep"));
        };
        match (ty.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Map(shape), Value::Object(map)) => self.map(shape, map, below),
            (Shape::List(shape), Value::Array(items)) => self.list(shape, items, below),
            (Shape::Scalar(scalar), value) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    self.error(problem);
                }
            }
            (Shape::Map(_), other) => {
                self.error(format!("expected map, got &{{{}}}", go_format::plain(other)))
            }
            (Shape::List(_), other) => {
                self.error(format!("expected list, got &{{{}}}", go_format::plain(other)))
            }
        }
    }

    fn map(&mut self, shape: MapShape<'_>, map: &Map<String, Value>, depth: usize) {
        for (name, value) in map {
            let before = self.errors.len();
            let declared = shape.declared(name);
            if declared.is_none() && self.strictness == Strictness::Applied {
                self.error("field not declared in schema".to_owned());
                return self.prefix(before, || PathElement::field(name.as_str()));
            }
            self.value(shape.child(name), value, depth);
            self.prefix(before, || PathElement::field(name.as_str()));
        }
    }

    fn list(&mut self, shape: ListShape<'_>, items: &[Value], depth: usize) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match shape.is_atomic() {
                true => PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)),
                false => match shape.element(item) {
                    Ok(element) => element,
                    Err(problem) => return self.error(format!("element {at}: {problem}")),
                },
            };
            let is_new = self.strictness == Strictness::Stored || seen.insert(element.clone());
            if !is_new {
                self.error(format!("duplicate entries for key {element}"));
            }
            let before = self.errors.len();
            self.value(shape.item(), item, depth);
            self.prefix(before, || element);
        }
    }

    fn error(&mut self, message: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(TypeError { path: String::new(), message });
        }
    }

    /// Prepends an element to the paths of all errors from index `since` on.
    fn prefix(&mut self, since: usize, element: impl FnOnce() -> PathElement) {
        if since < self.errors.len() {
            let step = element().to_string();
            for error in &mut self.errors[since..] {
                error.path.insert_str(0, &step);
            }
        }
    }
}

fn scalar_problem(scalar: Option<Scalar>, value: &Value) -> Option<String> {
    match scalar {
        Some(Scalar::Int32 | Scalar::Int64 | Scalar::Double) if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_format::type_name(value)))
        }
        Some(Scalar::String | Scalar::Bytes) if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_format::syntax(value)
        )),
        Some(Scalar::Boolean) if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_format::plain(value)))
        }
        _ if value.is_array() || value.is_object() => {
            Some(format!("expected any scalar, got &{{{}}}", go_format::plain(value)))
        }
        _ => None,
    }
}
