//! Declarations: the schema of API objects as seen by expressions, with types, field identifiers
//! and maximum sizes for cost estimates.

use std::sync::Arc;

use coracle_meta::prefix::Prefix;

use crate::names::RESERVED;
use crate::types::Type;

/// Maximum size of a request in bytes, the upper bound of all sizes in an object.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The declaration of a value: a schema reduced to the parts relevant for expressions.
#[derive(Clone, Debug)]
pub struct Decl {
    shape: Shape,
    nullable: bool,
    max_elements: u64,
    min_bytes: u64,
}

/// The shape of a declared value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Dynamic: the JSON value determines the type.
    Dyn,
    /// `x-kubernetes-preserve-unknown-fields` without a schema: only comparable.
    Preserved,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// `boolean`.
    Bool,
    /// `integer`.
    Int,
    /// `number`.
    Double,
    /// `string` without a format that maps to another type.
    String,
    /// `string` of format `byte`: base64.
    Bytes,
    /// `string` of format `duration`.
    Duration,
    /// `string` of format `date`.
    Date,
    /// `string` of format `date-time`.
    DateTime,
    /// `array`.
    List(Arc<Decl>, ListKind),
    /// `object` with `additionalProperties`.
    Map(Arc<Decl>),
    /// `object` with `properties`.
    Object(ObjectDecl),
}

/// `x-kubernetes-list-type`: comparison and concatenation of two lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Ordered.
    Atomic,
    /// Unique elements in any order.
    Set,
    /// Elements identified by the values of these fields, in any order.
    Map(Arc<[Arc<str>]>),
}

/// An object with declared fields.
#[derive(Clone, Debug)]
pub struct ObjectDecl {
    /// The type name; if `None`, the object is named after its path.
    name: Option<Arc<str>>,
    /// Sorted by identifier.
    fields: Vec<FieldDecl>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// The name in JSON.
    pub name: Arc<str>,
    /// The identifier in expressions; see [`escape`].
    pub identifier: Arc<str>,
    /// Prefix of the identifier, for fast search.
    prefix: Prefix,
    /// The declaration of the value.
    pub decl: Arc<Decl>,
    /// True if the field is required.
    pub required: bool,
}

static DYN: Decl = Decl { shape: Shape::Dyn, nullable: true, max_elements: 0, min_bytes: 1 };
static PRESERVED: Decl = Decl { shape: Shape::Preserved, nullable: true, max_elements: 0, min_bytes: 1 };

impl Decl {
    /// Creates the declaration of a scalar.
    pub fn scalar(shape: Shape) -> Self {
        let (max_elements, min_bytes) = match &shape {
            Shape::IntOrString => (MAX_REQUEST_BYTES - 2, 1),
            Shape::Bool => (0, 4),
            Shape::String | Shape::Bytes => (MAX_REQUEST_BYTES - 2, 2),
            Shape::Duration => (32, 3),
            Shape::Date => (12, 12),
            Shape::DateTime => (32, 21),
            _ => (0, 1),
        };
        Self { shape, nullable: false, max_elements, min_bytes }
    }

    /// Returns the declaration of a dynamic value.
    pub fn anything() -> &'static Self {
        &DYN
    }

    /// Sets the maximum length in characters (bytes for [`Shape::Bytes`]).
    #[must_use]
    pub fn with_max_length(mut self, characters: u64) -> Self {
        match self.shape {
            // A character takes up to four bytes, and sizes here are those of requests.
            Shape::String | Shape::IntOrString => self.max_elements = characters.saturating_mul(4),
            Shape::Bytes => self.max_elements = characters,
            _ => {}
        }
        self
    }

    /// Restricts the maximum length to that of these values.
    #[must_use]
    pub fn with_enum<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(longest) = values.into_iter().map(str::len).max() {
            self.max_elements = longest as u64;
        }
        self
    }

    /// Makes the declaration nullable.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Creates the declaration of a list. Without `maxItems`, the maximum is what fits into a
    /// request.
    pub fn list(items: impl Into<Arc<Decl>>, kind: ListKind, max_items: Option<u64>) -> Self {
        let items = items.into();
        let max_elements = max_items.unwrap_or((MAX_REQUEST_BYTES - 2) / (items.min_bytes + 1));
        Self { shape: Shape::List(items, kind), nullable: false, max_elements, min_bytes: 2 }
    }

    /// Creates the declaration of a map with string keys. Without `maxProperties`, the maximum is
    /// what fits into a request.
    pub fn map(values: impl Into<Arc<Decl>>, max_properties: Option<u64>) -> Self {
        let values = values.into();
        let max_elements = max_properties.unwrap_or((MAX_REQUEST_BYTES - 2) / (values.min_bytes + 6));
        Self { shape: Shape::Map(values), nullable: false, max_elements, min_bytes: 2 }
    }

    /// Creates the declaration of an object named after its path. Omits fields whose names cannot
    /// be escaped.
    pub fn object(fields: impl IntoIterator<Item = FieldDecl>) -> Self {
        let mut fields: Vec<FieldDecl> = fields.into_iter().collect();
        fields.sort_by(|one, other| one.identifier.cmp(&other.identifier));
        let required = fields.iter().filter(|field| field.required);
        let min_bytes =
            2 + required.map(|field| field.name.len() as u64 + field.decl.min_bytes + 4).sum::<u64>();
        let shape = Shape::Object(ObjectDecl { name: None, fields });
        Self { shape, nullable: false, max_elements: 0, min_bytes }
    }

    /// Creates the declaration of an object with a type name.
    pub fn named_object(name: &str, fields: impl IntoIterator<Item = FieldDecl>) -> Self {
        let mut object = Self::object(fields);
        if let Shape::Object(found) = &mut object.shape {
            found.name = Some(name.into());
        }
        object
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns true if the value may be null.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// Returns the maximum number of characters, bytes, elements or entries.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// Returns how many values of this declaration fit into one request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }

    pub(crate) fn is_typed(&self) -> bool {
        !matches!(self.shape, Shape::Dyn)
    }

    /// Returns the declaration of the elements of a list or map.
    pub(crate) fn element(&self) -> &Decl {
        match &self.shape {
            Shape::List(element, _) | Shape::Map(element) => element,
            Shape::Dyn => &DYN,
            _ => &PRESERVED,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&ObjectDecl> {
        if let Shape::Object(object) = &self.shape { Some(object) } else { None }
    }

    /// Returns the identifier of a field; `None` if expressions cannot access it.
    pub(crate) fn identifier<'d>(&'d self, name: &'d str) -> Option<&'d str> {
        match &self.shape {
            Shape::Object(object) => {
                object.fields.iter().find(|field| &*field.name == name).map(|field| &*field.identifier)
            }
            Shape::Preserved => None,
            _ => Some(name),
        }
    }

    /// Returns the CEL type of values of this declaration; `path` is the path that names objects.
    pub(crate) fn cel_type(&self, path: &str) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::Preserved | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::List(items, _) => Type::list(items.cel_type(&format!("{path}.@idx"))),
            Shape::Map(values) => Type::map(Type::String, values.cel_type(&format!("{path}.@elem"))),
            Shape::Object(object) => Type::object(object.type_name(path)),
        }
    }
}

impl ObjectDecl {
    /// Returns the field with this identifier.
    pub fn field(&self, identifier: &str) -> Option<&FieldDecl> {
        let prefix = Prefix::of(identifier);
        let order =
            |field: &FieldDecl| field.prefix.cmp(&prefix).then_with(|| (*field.identifier).cmp(identifier));
        self.fields.get(self.fields.binary_search_by(order).ok()?)
    }

    /// Returns all fields, sorted by identifier.
    pub fn fields(&self) -> &[FieldDecl] {
        &self.fields
    }

    pub(crate) fn type_name<'a>(&'a self, path: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(path)
    }
}

impl FieldDecl {
    /// Creates a field; `None` if its name cannot be escaped.
    pub fn new(name: &str, decl: impl Into<Arc<Decl>>, required: bool) -> Option<Self> {
        let identifier = escape(name)?;
        let prefix = Prefix::of(&identifier);
        Some(Self { name: name.into(), identifier: identifier.into(), prefix, decl: decl.into(), required })
    }
}

/// Escapes the name of a field: `__dash__` for a dash etc., `__namespace__` for a reserved word.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '_' if rest.starts_with("__") => {
                escaped.push_str("__underscores__");
                2
            }
            '.' => {
                escaped.push_str("__dot__");
                1
            }
            '-' => {
                escaped.push_str("__dash__");
                1
            }
            '/' => {
                escaped.push_str("__slash__");
                1
            }
            '_' | 'a'..='z' | 'A'..='Z' | '0'..='9' => {
                escaped.push(next);
                1
            }
            _ => return None,
        };
        rest = &rest[taken..];
    }
    Some(escaped)
}
