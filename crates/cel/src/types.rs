//! CEL types.

use std::fmt;
use std::sync::Arc;

/// The type of an expression. Its `Display` is that of cel-go's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// The type of an invalid expression; compatible with every type, so that an error is reported
    /// once.
    Error,
    /// Dynamic type, known at run time only.
    Dyn,
    /// Like [`Self::Dyn`], printed as `any`.
    Any,
    /// The type of `null`.
    Null,
    /// Boolean.
    Bool,
    /// 64-bit signed integer.
    Int,
    /// 64-bit unsigned integer.
    Uint,
    /// 64-bit floating-point number.
    Double,
    /// String.
    String,
    /// Byte string.
    Bytes,
    /// Duration.
    Duration,
    /// Timestamp.
    Timestamp,
    /// List with its element type.
    List(Arc<Type>),
    /// Map with its key and value types.
    Map(Arc<Type>, Arc<Type>),
    /// Object type with fields, which a type provider defines.
    Struct(Arc<str>),
    /// Abstract type with type parameters.
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// Type parameter of a signature, or type variable of the checker.
    Param(Arc<str>),
}

const OPTIONAL: &str = "optional_type";

impl Type {
    /// Creates a list type.
    pub fn list(elements: Type) -> Self {
        Self::List(Arc::new(elements))
    }

    /// Creates a map type.
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// Creates an optional type.
    pub fn optional(inner: Type) -> Self {
        Self::Opaque(OPTIONAL.into(), Arc::from([inner]))
    }

    /// Creates an object type.
    pub fn object(name: &str) -> Self {
        Self::Struct(name.into())
    }

    /// Creates an abstract type without parameters.
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(name.into(), Arc::from([]))
    }

    pub(crate) fn type_of(inner: Type) -> Self {
        Self::Type(Some(Arc::new(inner)))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    pub(crate) fn as_optional(&self) -> Option<&Type> {
        match self {
            Self::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Returns the name without parameters, the value of `type(x)`.
    pub fn name(&self) -> &str {
        match self {
            Self::Error => "error",
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Type(_) => "type",
            Self::Struct(name) | Self::Opaque(name, _) | Self::Param(name) => name,
        }
    }

    /// Returns the type that an identifier denotes, such as `int` or `google.protobuf.Timestamp`.
    pub(crate) fn by_identifier(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "bytes" => Self::Bytes,
            "double" => Self::Double,
            "google.protobuf.Duration" => Self::Duration,
            "google.protobuf.Timestamp" => Self::Timestamp,
            "int" => Self::Int,
            "list" => Self::list(Self::Param("A".into())),
            "map" => Self::map(Self::Param("A".into()), Self::Param("B".into())),
            "null_type" => Self::Null,
            "string" => Self::String,
            "type" => Self::Type(None),
            "uint" => Self::Uint,
            OPTIONAL => Self::optional(Self::Dyn),
            "net.IP" | "net.CIDR" => Self::opaque(name),
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(elements) => write!(f, "list({elements})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Opaque(name, parameters) if !parameters.is_empty() => {
                write!(f, "{name}(")?;
                write_list(f, parameters)?;
                f.write_str(")")
            }
            other => f.write_str(other.name()),
        }
    }
}

/// Writes types separated by commas.
pub(crate) fn write_list(f: &mut impl fmt::Write, types: &[Type]) -> fmt::Result {
    for (index, one) in types.iter().enumerate() {
        write!(f, "{}{one}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}
