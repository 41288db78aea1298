//! Values, the input and results of expressions. Most borrow from the object they come from.

mod arithmetic;
mod compare;
mod convert;
mod extension;
mod go_type;
mod json;
mod list;
mod map;
mod number;
mod time;

use std::fmt;
use std::sync::Arc;

use crate::types::Type;

pub(crate) use arithmetic::{Arithmetic, negate};
pub(crate) use compare::{compare, equal};
pub(crate) use convert::convert;
pub(crate) use extension::Extension;
pub(crate) use json::from_json;
pub(crate) use list::List;
pub(crate) use map::{Key, Map};
pub(crate) use number::format_double;
pub use time::{Duration, Timestamp};
pub(crate) use time::{parse_go_duration, parse_openapi_duration};

/// A string, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Text<'d> {
    /// Borrowed from an object or a program.
    Borrowed(&'d str),
    /// Created by evaluation.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// Returns the string.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// An object created by an expression such as `Object{spec: ...}`.
#[derive(Clone, Debug)]
pub struct Object<'d> {
    /// The type name.
    pub type_name: Arc<str>,
    /// The fields in source order, with unique names.
    pub fields: Vec<(Arc<str>, Value<'d>)>,
}

impl<'d> Object<'d> {
    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&Value<'d>> {
        self.fields.iter().find(|(found, _)| &**found == name).map(|(_, value)| value)
    }
}

/// A CEL value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'d> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// 64-bit signed integer.
    Int(i64),
    /// 64-bit unsigned integer.
    Uint(u64),
    /// 64-bit floating-point number.
    Double(f64),
    /// String.
    String(Text<'d>),
    /// Byte string.
    Bytes(Arc<[u8]>),
    /// Timestamp.
    Timestamp(Timestamp),
    /// Duration.
    Duration(Duration),
    /// A list; see [`Value::elements`].
    List(ListValue<'d>),
    /// A map or an API object; see [`Value::entries`].
    Map(MapValue<'d>),
    /// An object created by the expression.
    Object(Arc<Object<'d>>),
    /// An optional value.
    Optional(Option<Arc<Value<'d>>>),
    /// A type.
    Type(Type),
    /// A value of a library, such as a quantity or an IP address.
    Extension(ExtensionValue<'d>),
    /// An object, given by name, whose fields the activation computes on first read.
    Lazy(&'d str),
}

/// A list.
#[derive(Clone, Debug)]
pub struct ListValue<'d>(pub(crate) List<'d>);

/// A map.
#[derive(Clone, Debug)]
pub struct MapValue<'d>(pub(crate) Map<'d>);

/// A value of a library.
#[derive(Clone, Debug)]
pub struct ExtensionValue<'d>(pub(crate) Arc<Extension<'d>>);

impl<'d> Value<'d> {
    /// Creates a shared string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// Creates a borrowed string.
    pub fn text(text: &'d str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// Creates a list.
    pub fn list(elements: Vec<Value<'d>>) -> Self {
        Self::List(ListValue(List::owned(elements)))
    }

    /// Creates a map. Of entries with equal keys the last one wins; keys of unsupported types are
    /// skipped.
    pub fn map(entries: impl IntoIterator<Item = (Value<'d>, Value<'d>)>) -> Self {
        let entries = entries.into_iter().filter_map(|(key, value)| Some((Key::new(key)?, value)));
        Self::Map(MapValue(Map::owned(entries.collect())))
    }

    /// Creates an optional with a value.
    pub fn some(value: Value<'d>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn extension(extension: Extension<'d>) -> Self {
        Self::Extension(ExtensionValue(Arc::new(extension)))
    }

    /// Returns the boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Returns the string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text.as_str()) } else { None }
    }

    /// Returns the elements of a list. Elements of a list in an API object are converted lazily, so
    /// each conversion may fail.
    pub fn elements(&self) -> Option<impl Iterator<Item = Result<Value<'d>, crate::EvalError>>> {
        if let Self::List(list) = self { Some(list.0.iter()) } else { None }
    }

    /// Returns the keys and values of a map.
    pub fn entries(&self) -> Option<impl Iterator<Item = Result<(Value<'d>, Value<'d>), crate::EvalError>>> {
        let Self::Map(map) = self else { return None };
        Some(map.0.entries())
    }

    /// Returns the runtime type: for lists and maps without element types.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) | Self::Lazy(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Object(object) => Type::Struct(object.type_name.clone()),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Extension(extension) => extension.0.type_of(),
        }
    }

    /// Returns the size as of `size()`, or one for values without size; the basis of costs.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => text.as_str().chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.0.len() as u64,
            Self::Map(map) => map.0.len() as u64,
            Self::Extension(extension) => extension.0.cost_size(),
            _ => 1,
        }
    }

    /// Returns true for the zero value of the type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => value.0 == 0,
            Self::Timestamp(value) => value.is_zero(),
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.cost_size() == 0,
            Self::Object(object) => object.fields.is_empty(),
            Self::Optional(_) | Self::Type(_) | Self::Extension(_) | Self::Lazy(_) => false,
        }
    }

    /// Returns the nesting depth.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.0.depth(),
            Self::Map(map) => map.0.depth(),
            Self::Optional(Some(inner)) => inner.depth() + 1,
            Self::Object(object) => {
                object.fields.iter().map(|(_, value)| value.depth()).max().unwrap_or_default() + 1
            }
            _ => 0,
        }
    }
}

/// Formats a value as in cel-go's messages.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&format_double(*value)),
            Self::String(text) => f.write_str(text.as_str()),
            Self::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Timestamp(value) => write!(f, "{value}"),
            Self::Duration(value) => write!(f, "{value}"),
            Self::Extension(extension) => write!(f, "{}", extension.0),
            Self::Type(found) => f.write_str(found.name()),
            other => f.write_str(other.type_of().name()),
        }
    }
}
