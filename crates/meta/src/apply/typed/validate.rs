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

/// Maximum total length of reported errors. The field path of a deeply nested value is long, and
/// all errors may have such paths.
const MAX_ERROR_BYTES: usize = 1 << 20;

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
        let mut check = Check { strictness, errors: Vec::new(), bytes_left: MAX_ERROR_BYTES };
        check.value(self, value, Location { parent: None, step: None, depth: 0 });
        if check.errors.is_empty() { Ok(()) } else { Err(TypeErrors(check.errors)) }
    }
}

struct Check {
    strictness: Strictness,
    errors: Vec<TypeError>,
    bytes_left: usize,
}

/// The location of a value, formatted only for an error, because most objects have none.
#[derive(Clone, Copy)]
struct Location<'a> {
    parent: Option<&'a Location<'a>>,
    step: Option<Step<'a>>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(&'a PathElement),
}

impl<'a> Location<'a> {
    fn child(&'a self, step: Step<'a>) -> Location<'a> {
        Location { parent: Some(self), step: Some(step), depth: self.depth + 1 }
    }

    fn path(&self) -> String {
        let mut steps = Vec::with_capacity(self.depth);
        let mut location = Some(self);
        while let Some(Location { parent, step, .. }) = location {
            steps.extend(*step);
            location = *parent;
        }
        let printed = steps.into_iter().rev().map(|step| match step {
            Step::Field(name) => PathElement::field(name).to_string(),
            Step::Item(element) => element.to_string(),
        });
        printed.collect()
    }
}

impl Check {
    fn value(&mut self, ty: Type<'_>, value: &Value, location: Location<'_>) {
        if location.depth == MAX_DEPTH {
            return self.error(location, format!("nested more than {MAX_DEPTH} levels deep"));
        }
        match (ty.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Map(shape), Value::Object(map)) => self.map(shape, map, location),
            (Shape::List(shape), Value::Array(items)) => self.list(shape, items, location),
            (Shape::Scalar(scalar), value) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    self.error(location, problem);
                }
            }
            (Shape::Map(_), other) => {
                self.error(location, format!("expected map, got &{{{}}}", go_format::plain(other)))
            }
            (Shape::List(_), other) => {
                self.error(location, format!("expected list, got &{{{}}}", go_format::plain(other)))
            }
        }
    }

    fn map(&mut self, shape: MapShape<'_>, map: &Map<String, Value>, location: Location<'_>) {
        for (name, value) in map {
            let location = location.child(Step::Field(name));
            let declared = shape.declared(name);
            if declared.is_none() && self.strictness == Strictness::Applied {
                return self.error(location, "field not declared in schema".to_owned());
            }
            self.value(shape.child(name), value, location);
        }
    }

    fn list(&mut self, shape: ListShape<'_>, items: &[Value], location: Location<'_>) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match shape.is_atomic() {
                true => PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)),
                false => match shape.element(item) {
                    Ok(element) => element,
                    Err(problem) => return self.error(location, format!("element {at}: {problem}")),
                },
            };
            let is_new = self.strictness == Strictness::Stored || seen.insert(element.clone());
            if !is_new {
                self.error(location, format!("duplicate entries for key {element}"));
            }
            self.value(shape.item(), item, location.child(Step::Item(&element)));
        }
    }

    fn error(&mut self, location: Location<'_>, message: String) {
        if self.errors.len() == MAX_ERRORS || self.bytes_left == 0 {
            return;
        }
        let path = location.path();
        self.bytes_left = self.bytes_left.saturating_sub(path.len() + message.len());
        self.errors.push(TypeError { path, message });
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
