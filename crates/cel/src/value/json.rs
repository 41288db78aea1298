//! Conversion between JSON and values: API objects according to their declaration, and results as
//! JSON.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_meta::go_json;
use serde_json::{Map as JsonMap, Value as Json};

use crate::EvalError;
use crate::decl::{Decl, ListKind, Shape};

use super::list::List;
use super::map::Map;
use super::{ListValue, MapValue, Timestamp, Value, equal, format_double, parse_openapi_duration};

type Flow<'d> = Result<Value<'d>, EvalError>;

impl<'d> Value<'d> {
    /// Converts a JSON value according to its declaration. Borrows; nothing is copied.
    ///
    /// # Errors
    /// If it does not match the declaration.
    pub fn from_json(json: &'d Json, decl: &'d Decl) -> Result<Self, EvalError> {
        from_json(json, decl)
    }

    /// Converts the value to JSON. Map keys become strings; values of libraries cannot be
    /// converted.
    ///
    /// # Errors
    /// If a part cannot be converted.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => {
                go_json::number(*value).map_or_else(|| Json::String(format_double(*value)), Json::Number)
            }
            Self::String(text) => Json::String(text.as_str().to_owned()),
            Self::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Self::Timestamp(_) | Self::Duration(_) => Json::String(self.to_string()),
            Self::List(ListValue(List::Json(elements, _))) => Json::Array(elements.to_vec()),
            Self::List(list) => {
                Json::Array(list.0.iter().map(|element| element?.to_json()).collect::<Result<_, _>>()?)
            }
            Self::Map(MapValue(Map::Json(members, _))) => Json::Object((*members).clone()),
            Self::Map(map) => {
                let mut members = JsonMap::new();
                for entry in map.0.entries() {
                    let (key, value) = entry?;
                    members.insert(key.to_string(), value.to_json()?);
                }
                Json::Object(members)
            }
            Self::Object(object) => {
                let mut members = JsonMap::new();
                for (name, value) in &object.fields {
                    members.insert(name.to_string(), value.to_json()?);
                }
                Json::Object(members)
            }
            Self::Optional(Some(inner)) => inner.to_json()?,
            Self::Optional(None) => Json::Null,
            Self::Type(_) | Self::Extension(_) | Self::Lazy(_) => {
                let name = self.type_of();
                return Err(EvalError::failed(format!("cannot convert '{}' to JSON", name.name())));
            }
        })
    }
}

/// Converts a JSON value according to its declaration.
pub(crate) fn from_json<'d>(json: &'d Json, decl: &'d Decl) -> Flow<'d> {
    if let Shape::Dyn | Shape::Preserved = decl.shape() {
        return Ok(untyped(json, decl));
    }
    match (decl.shape(), json) {
        (_, Json::Null) if decl.is_nullable() => Ok(Value::Null),
        (_, Json::Null) => Err(EvalError::failed("invalid data, got null for schema with nullable=false")),
        (Shape::String, Json::String(text)) => Ok(Value::text(text)),
        (Shape::Int | Shape::IntOrString, Json::Number(number)) if number.is_i64() => {
            Ok(number.as_i64().map_or(Value::Null, Value::Int))
        }
        (Shape::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Shape::Double, Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or_default())),
        (Shape::IntOrString, Json::String(text)) => Ok(Value::text(text)),
        (Shape::Object(_) | Shape::Map(_), Json::Object(members)) => {
            Ok(Value::Map(MapValue(Map::Json(members, decl))))
        }
        (Shape::List(..), Json::Array(elements)) => Ok(Value::List(ListValue(List::Json(elements, decl)))),
        (Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime, Json::String(text)) => {
            formatted(text, decl.shape())
        }
        (shape, json) => Err(EvalError::failed(mismatch(shape, json))),
    }
}

fn untyped<'d>(json: &'d Json, decl: &'d Decl) -> Value<'d> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::text(text),
        Json::Array(elements) => Value::List(ListValue(List::Json(elements, decl))),
        Json::Object(members) => Value::Map(MapValue(Map::Json(members, decl))),
    }
}

/// Converts a string whose format maps to another type.
fn formatted<'d>(text: &str, shape: &Shape) -> Flow<'d> {
    match shape {
        Shape::Bytes => STANDARD
            .decode(text)
            .map(|bytes| Value::Bytes(bytes.into()))
            .map_err(|error| EvalError::failed(format!("Invalid byte formatted string {text}: {error}"))),
        Shape::Duration => parse_openapi_duration(text).map(Value::Duration).ok_or_else(|| {
            EvalError::failed(format!("Invalid duration {text}: unable to parse {text} as duration"))
        }),
        Shape::Date => date(&format!("{text}T00:00:00Z"), text, "date"),
        _ => date(text, text, "date-time"),
    }
}

fn date<'d>(full: &str, text: &str, format: &str) -> Flow<'d> {
    let invalid = || EvalError::failed(format!("Invalid {format} formatted string {text}: not a {format}"));
    Timestamp::parse(full).ok_or_else(invalid)?.map(Value::Timestamp)
}

fn mismatch(shape: &Shape, json: &Json) -> String {
    let expected = match shape {
        Shape::Object(_) | Shape::Map(_) => {
            return "invalid data, expected a map for the provided schema with type=object".to_owned();
        }
        Shape::List(..) => {
            return "invalid data, expected an array for the provided schema with type=array".to_owned();
        }
        Shape::IntOrString => {
            return "invalid data, expected XIntOrString value to be either a string or integer".to_owned();
        }
        Shape::Bool => "bool",
        Shape::Int => "int",
        Shape::Double => "float",
        _ => "string",
    };
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    format!("invalid data, expected {expected}, got {found}")
}

/// Compares two lists of the same length, if the first is declared as set or map; `None` if it is
/// ordered.
pub(super) fn unordered_equal<'d>(
    list: &List<'d>,
    decl: &Decl,
    other: &List<'d>,
) -> Option<Result<bool, EvalError>> {
    let kind = unordered(decl)?;
    Some((|| {
        let mut by_identity = HashMap::new();
        for element in list.iter() {
            let element = element?;
            by_identity.insert(identity(&element, kind)?, element);
        }
        for candidate in other.iter() {
            let candidate = candidate?;
            let equals = match by_identity.get(&identity(&candidate, kind)?) {
                Some(element) => equal(element, &candidate)?,
                None => false,
            };
            if !equals {
                return Ok(false);
            }
        }
        Ok(true)
    })())
}

/// Concatenates two lists of which the first is declared as set or map: existing elements are not
/// added again, but an element of a map-type list replaces the one with the same key.
pub(super) fn merge<'d>(
    list: &List<'d>,
    decl: &'d Decl,
    other: &List<'d>,
) -> Option<Result<List<'d>, EvalError>> {
    let kind = unordered(decl)?;
    Some((|| {
        let mut merged: Vec<Value<'d>> = list.iter().collect::<Result<_, _>>()?;
        let mut positions = HashMap::new();
        for (position, element) in merged.iter().enumerate() {
            positions.insert(identity(element, kind)?, position);
        }
        for candidate in other.iter() {
            let candidate = candidate?;
            let identity = identity(&candidate, kind)?;
            match positions.get(&identity) {
                Some(position) if matches!(kind, ListKind::Map(_)) => merged[*position] = candidate,
                Some(_) => {}
                None => {
                    positions.insert(identity, merged.len());
                    merged.push(candidate);
                }
            }
        }
        Ok(List::declared(merged, decl))
    })())
}

/// Returns the kind of a list without order, which determines the identity of its elements.
fn unordered(decl: &Decl) -> Option<&ListKind> {
    match decl.shape() {
        Shape::List(_, kind) if *kind != ListKind::Atomic => Some(kind),
        _ => None,
    }
}

/// Returns the identity of an element: the element itself, or the values of its keys.
fn identity(value: &Value<'_>, kind: &ListKind) -> Result<Vec<Option<Json>>, EvalError> {
    match (kind, value) {
        (ListKind::Map(keys), Value::Map(map)) => {
            keys.iter().map(|key| map.0.field(key)?.map(|value| value.to_json()).transpose()).collect()
        }
        _ => Ok(vec![Some(value.to_json()?)]),
    }
}
