//! Whether an object is what its schema says, as far as merging it depends on that.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type, TypeError, TypeErrors};
use crate::apply::fields_v1::MAX_DEPTH;
use crate::apply::go_format;
use crate::apply::path_element::PathElement;
use crate::schema::Scalar;

/// How many faults are told; a request can have as many as it has bytes.
const MAX_ERRORS: usize = 1_000;

/// How long all told faults may be together. The path of a deep place is long, and all faults may be there.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// What is not forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// What a client applies: items have each their own keys, and fields are known.
    Applied,
    /// What is stored or was written otherwise: it may have items with equal keys, and fields
    /// that are not known any more.
    Stored,
}

impl Type<'_> {
    /// Checks that a value has this type.
    ///
    /// # Errors
    /// If it has not, or is nested too deeply.
    pub fn validate(self, value: &Value, strictness: Strictness) -> Result<(), TypeErrors> {
        let mut check = Check { strictness, errors: Vec::new(), bytes_left: MAX_ERROR_BYTES };
        check.value(self, value, Place { above: None, step: None, depth: 0 });
        if check.errors.is_empty() { Ok(()) } else { Err(TypeErrors(check.errors)) }
    }
}

struct Check {
    strictness: Strictness,
    errors: Vec<TypeError>,
    bytes_left: usize,
}

/// Where a value is. Written out for a fault only, which most objects have none of.
#[derive(Clone, Copy)]
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Option<Step<'a>>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(&'a PathElement),
}

impl<'a> Place<'a> {
    fn below(&'a self, step: Step<'a>) -> Place<'a> {
        Place { above: Some(self), step: Some(step), depth: self.depth + 1 }
    }

    fn path(&self) -> String {
        let mut steps = Vec::with_capacity(self.depth);
        let mut place = Some(self);
        while let Some(Place { above, step, .. }) = place {
            steps.extend(*step);
            place = *above;
        }
        let printed = steps.into_iter().rev().map(|step| match step {
            Step::Field(name) => PathElement::field(name).to_string(),
            Step::Item(element) => element.to_string(),
        });
        printed.collect()
    }
}

impl Check {
    fn value(&mut self, ty: Type<'_>, value: &Value, place: Place<'_>) {
        if place.depth == MAX_DEPTH {
            return self.error(place, format!("nested more than {MAX_DEPTH} levels deep"));
        }
        match (ty.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Map(shape), Value::Object(map)) => self.map(shape, map, place),
            (Shape::List(shape), Value::Array(items)) => self.list(shape, items, place),
            (Shape::Scalar(scalar), value) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    self.error(place, problem);
                }
            }
            (Shape::Map(_), other) => {
                self.error(place, format!("expected map, got &{{{}}}", go_format::plain(other)))
            }
            (Shape::List(_), other) => {
                self.error(place, format!("expected list, got &{{{}}}", go_format::plain(other)))
            }
        }
    }

    fn map(&mut self, shape: MapShape<'_>, map: &Map<String, Value>, place: Place<'_>) {
        for (name, value) in map {
            let place = place.below(Step::Field(name));
            let declared = shape.declared(name);
            if declared.is_none() && self.strictness == Strictness::Applied {
                return self.error(place, "field not declared in schema".to_owned());
            }
            self.value(shape.child(name), value, place);
        }
    }

    fn list(&mut self, shape: ListShape<'_>, items: &[Value], place: Place<'_>) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match shape.is_atomic() {
                true => PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)),
                false => match shape.element(item) {
                    Ok(element) => element,
                    Err(problem) => return self.error(place, format!("element {at}: {problem}")),
                },
            };
            let is_new = self.strictness == Strictness::Stored || seen.insert(element.clone());
            if !is_new {
                self.error(place, format!("duplicate entries for key {element}"));
            }
            self.value(shape.item(), item, place.below(Step::Item(&element)));
        }
    }

    fn error(&mut self, place: Place<'_>, message: String) {
        if self.errors.len() == MAX_ERRORS || self.bytes_left == 0 {
            return;
        }
        let path = place.path();
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
