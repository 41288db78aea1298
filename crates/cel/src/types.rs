//! The types of expressions.

use std::fmt;
use std::sync::Arc;

/// The type of an expression. Its text is how upstream's messages write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Of an expression that was refused; agrees with everything, so that one fault is told once.
    Error,
    /// Known only when it is evaluated.
    Dyn,
    /// Like [`Self::Dyn`], and written `any`.
    Any,
    /// The type of `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// 64 bits with a sign.
    Int,
    /// 64 bits without a sign.
    Uint,
    /// 64 bits with a floating point.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list and what is in it.
    List(Arc<Type>),
    /// A map: its keys and its values.
    Map(Arc<Type>, Arc<Type>),
    /// An object with named fields, which the provider knows.
    Struct(Arc<str>),
    /// A type known by its name only.
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A parameter of a signature, or a variable of the checker.
    Param(Arc<str>),
}

const OPTIONAL: &str = "optional_type";

impl Type {
    /// A list of something.
    pub fn list(elements: Type) -> Self {
        Self::List(Arc::new(elements))
    }

    /// A map from something to something.
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// A value that may be absent.
    pub fn optional(inner: Type) -> Self {
        Self::Opaque(OPTIONAL.into(), Arc::from([inner]))
    }

    /// An object of a name.
    pub fn object(name: &str) -> Self {
        Self::Struct(name.into())
    }

    /// A type of which nothing but its name is known.
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

    /// Its name without parameters: what a value of this type tells as its type.
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

    /// The type that an identifier of this name denotes, such as `int` or `google.protobuf.Timestamp`.
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

/// Types with commas between them.
pub(crate) fn write_list(f: &mut impl fmt::Write, types: &[Type]) -> fmt::Result {
    for (index, one) in types.iter().enumerate() {
        write!(f, "{}{one}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}
