//! Between JSON and values: objects of the API as their declarations read them, and results as JSON.

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
    /// A value of an object, read as it is declared. Nothing is copied.
    ///
    /// # Errors
    /// If it is not what was declared.
    pub fn from_json(json: &'d Json, decl: &'d Decl) -> Result<Self, EvalError> {
        from_json(json, decl)
    }

    /// As JSON. Keys become text; values of libraries have no form in JSON.
    ///
    /// # Errors
    /// If a part has none.
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
                return Err(EvalError::failed(format!("'{}' has no form in JSON", name.name())));
            }
        })
    }
}

/// A value of an object, read as it is declared.
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

/// A string that means something else.
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
    let refusal = || EvalError::failed(format!("Invalid {format} formatted string {text}: not a {format}"));
    Timestamp::parse(full).ok_or_else(refusal)?.map(Value::Timestamp)
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

/// Whether two lists are equal of which the first is declared to have no order; `None` if it has one. They
/// are of the same length.
pub(super) fn unordered_equal<'d>(
    list: &List<'d>,
    decl: &Decl,
    other: &List<'d>,
) -> Option<Result<bool, EvalError>> {
    let kind = unordered(decl)?;
    Some((|| {
        let mut known = HashMap::new();
        for element in list.iter() {
            let element = element?;
            known.insert(identity(&element, kind)?, element);
        }
        for candidate in other.iter() {
            let candidate = candidate?;
            let equals = match known.get(&identity(&candidate, kind)?) {
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

/// Two lists joined of which the first is a set or a map: what is there already is not added again, but an
/// element of a map replaces the one of the same key.
pub(super) fn merge<'d>(
    list: &List<'d>,
    decl: &'d Decl,
    other: &List<'d>,
) -> Option<Result<List<'d>, EvalError>> {
    let kind = unordered(decl)?;
    Some((|| {
        let mut merged: Vec<Value<'d>> = list.iter().collect::<Result<_, _>>()?;
        let mut places = HashMap::new();
        for (place, element) in merged.iter().enumerate() {
            places.insert(identity(element, kind)?, place);
        }
        for candidate in other.iter() {
            let candidate = candidate?;
            let identity = identity(&candidate, kind)?;
            match places.get(&identity) {
                Some(place) if matches!(kind, ListKind::Map(_)) => merged[*place] = candidate,
                Some(_) => {}
                None => {
                    places.insert(identity, merged.len());
                    merged.push(candidate);
                }
            }
        }
        Ok(List::declared(merged, decl))
    })())
}

/// How the elements of a list without order are told apart.
fn unordered(decl: &Decl) -> Option<&ListKind> {
    match decl.shape() {
        Shape::List(_, kind) if *kind != ListKind::Atomic => Some(kind),
        _ => None,
    }
}

/// What an element is known by: itself, or the values of its keys.
fn identity(value: &Value<'_>, kind: &ListKind) -> Result<Vec<Option<Json>>, EvalError> {
    match (kind, value) {
        (ListKind::Map(keys), Value::Map(map)) => {
            keys.iter().map(|key| map.0.field(key)?.map(|value| value.to_json()).transpose()).collect()
        }
        _ => Ok(vec![Some(value.to_json()?)]),
    }
}
