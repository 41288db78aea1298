//! Evaluation of attributes: variables and paths into them.

use crate::EvalError;
use crate::plan::{Accumulator, Attribute, Base, Qualifier, QualifierKey};
use crate::value::{ListValue, Text, Value};

use super::{Flow, Machine, READ_COST};

/// Returns the cost of reading an attribute, without its path.
pub(super) fn base_cost(attribute: &Attribute) -> u64 {
    if matches!(attribute.base, Base::Conditional(_)) { 0 } else { READ_COST }
}

/// The result of resolving a path.
enum Resolved<'d> {
    Value(Value<'d>),
    /// The value of a path that may be absent without error.
    Optional(Option<Value<'d>>),
}

impl<'d> Machine<'_, 'd> {
    pub(super) fn resolve_attribute(&mut self, attribute: &'d Attribute) -> Flow<'d> {
        let base = self.base(&attribute.base)?;
        if attribute.path.is_empty() {
            return Ok(base);
        }
        match self.walk(base, &attribute.path, false)? {
            Resolved::Value(value) => Ok(value),
            Resolved::Optional(None) => Ok(Value::Optional(None)),
            Resolved::Optional(Some(value)) => Ok(Value::some(value)),
        }
    }

    /// Returns whether the last element of a path exists; the elements before it must exist.
    pub(super) fn test_attribute(&mut self, attribute: &'d Attribute) -> Flow<'d> {
        let base = self.base(&attribute.base)?;
        Ok(match self.walk(base, &attribute.path, true)? {
            Resolved::Optional(value) => Value::Bool(value.is_some()),
            Resolved::Value(value) => value,
        })
    }

    fn base(&mut self, base: &'d Base) -> Flow<'d> {
        match base {
            Base::Variable(name) => match self.activation.variable(name) {
                Some(value) => Ok(value),
                None => Err(EvalError::failed(format!("no such attribute(s): {name}"))),
            },
            Base::Local(slot) => match &self.slots[usize::from(*slot)] {
                Some(value) => value.clone(),
                None => Err(EvalError::failed("no such attribute(s)")),
            },
            Base::Accumulator(accumulator) => self.accumulated(*accumulator),
            Base::Step(id) => self.eval(*id),
            Base::Conditional(id) => self.resolve(*id),
        }
    }

    /// Returns the current value of a fold's accumulator.
    pub(super) fn accumulated(&mut self, accumulator: Accumulator) -> Flow<'d> {
        let slot = usize::from(accumulator.slot);
        if let Some(value) = &self.slots[slot] {
            return value.clone();
        }
        let value = super::absorbed(self.eval(accumulator.init))?;
        self.slots[slot] = Some(value.clone());
        value
    }

    fn walk(
        &mut self,
        base: Value<'d>,
        path: &'d [Qualifier],
        test: bool,
    ) -> Result<Resolved<'d>, EvalError> {
        let mut optional = matches!(base, Value::Optional(_));
        let mut value = match base {
            Value::Optional(None) => return Ok(Resolved::Optional(None)),
            Value::Optional(Some(inner)) => Value::clone(&inner),
            other => other,
        };
        for (index, qualifier) in path.iter().enumerate() {
            optional = optional || qualifier.optional;
            let presence = test && index + 1 == path.len();
            let found = self.qualify(&value, &qualifier.key, optional || presence);
            // Where absence is allowed, only present values cost.
            if presence || !optional || matches!(found, Ok(Some(_))) {
                self.charge(READ_COST)?;
            }
            match found? {
                found if presence && !optional => return Ok(Resolved::Value(Value::Bool(found.is_some()))),
                Some(found) => value = found,
                None => return Ok(Resolved::Optional(None)),
            }
        }
        Ok(if optional { Resolved::Optional(Some(value)) } else { Resolved::Value(value) })
    }

    /// Resolves one element of a path. Absence is an error unless `absent` is true.
    fn qualify(
        &mut self,
        value: &Value<'d>,
        key: &'d QualifierKey,
        absent: bool,
    ) -> Result<Option<Value<'d>>, EvalError> {
        let found = match key {
            QualifierKey::Field(name) => self.field(value, name)?,
            QualifierKey::Constant(key) => self.index(value, key)?,
            QualifierKey::Computed(id) => {
                let key = self.resolve(*id)?;
                if !key.is_qualifier() {
                    return Err(EvalError::failed(format!("invalid qualifier type: {}", key.go_type())));
                }
                let found = self.index(value, &key)?;
                if found.is_none() && !absent {
                    return Err(missing(value, &key));
                }
                return Ok(found);
            }
        };
        match (found, key) {
            // A field that an expression did not set is null.
            (None, _) if !absent && matches!(value, Value::Object(_)) => Ok(Some(Value::Null)),
            (None, QualifierKey::Field(name)) if !absent => {
                Err(EvalError::failed(format!("no such key: {name}")))
            }
            (None, QualifierKey::Constant(key)) if !absent => Err(missing(value, key)),
            (found, _) => Ok(found),
        }
    }

    fn field(&mut self, value: &Value<'d>, name: &str) -> Result<Option<Value<'d>>, EvalError> {
        match value {
            Value::Map(map) => map.0.field(name),
            Value::Lazy(object) => self.activation.lazy_field(object, name, self.budget).transpose(),
            Value::Object(object) => Ok(object.field(name).cloned()),
            Value::List(_) => Err(not_an_index(&Value::string(name))),
            _ => Ok(None),
        }
    }

    fn index(&mut self, value: &Value<'d>, key: &Value<'d>) -> Result<Option<Value<'d>>, EvalError> {
        match (value, key) {
            (Value::Map(map), Value::String(Text::Borrowed(name))) => map.0.field(name),
            (Value::Map(map), key) => map.0.find(key),
            (Value::List(list), key) => element(list, key),
            (_, Value::String(name)) => self.field(value, name.as_str()),
            _ => Ok(None),
        }
    }
}

fn missing(value: &Value<'_>, key: &Value<'_>) -> EvalError {
    let what = if matches!(value, Value::List(_)) { "index out of bounds" } else { "no such key" };
    EvalError::failed(format!("{what}: {key}"))
}

fn not_an_index(key: &Value<'_>) -> EvalError {
    EvalError::failed(format!("unsupported index type '{}' in list", key.type_of().name()))
}

/// Returns an element by an index of any numeric type with an integer value.
fn element<'d>(list: &ListValue<'d>, key: &Value<'d>) -> Result<Option<Value<'d>>, EvalError> {
    let index = match key {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::Uint(index) => usize::try_from(*index).ok(),
        Value::Double(index) => {
            let whole = crate::value::convert(&Value::Double(*index), &crate::types::Type::Int);
            match whole {
                Some(Ok(Value::Int(whole))) if index.fract() == 0.0 => usize::try_from(whole).ok(),
                _ => return Err(EvalError::failed(format!("unsupported index value {key} in list"))),
            }
        }
        _ => return Err(not_an_index(key)),
    };
    index.and_then(|index| list.0.get(index)).transpose()
}
