//! How objects of the API look to expressions: what JSON means where, which names fields have, and how large
//! values can get, which is what a cost is estimated from.

use std::sync::Arc;

use coracle_meta::prefix::Prefix;

use crate::names::RESERVED;
use crate::types::Type;

/// Largest request the API takes, in bytes; nothing in an object is larger.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The declaration of a value: a schema, reduced to what expressions need of it.
#[derive(Clone, Debug)]
pub struct Decl {
    shape: Shape,
    nullable: bool,
    max_elements: u64,
    min_bytes: u64,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Anything; JSON tells.
    Dyn,
    /// Kept as it is, and only comparable: no schema describes it.
    Preserved,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// `boolean`.
    Bool,
    /// `integer`.
    Int,
    /// `number`.
    Double,
    /// `string` without a format that means another type.
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

/// `x-kubernetes-list-type`: how two lists compare and join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// In order.
    Atomic,
    /// Each element once, in any order.
    Set,
    /// Elements known by the values of these fields, in any order.
    Map(Arc<[Arc<str>]>),
}

/// An object with named fields.
#[derive(Clone, Debug)]
pub struct ObjectDecl {
    /// If it has one of its own; otherwise it is named after its place.
    name: Option<Arc<str>>,
    /// By identifier.
    fields: Vec<FieldDecl>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// As JSON has it.
    pub name: Arc<str>,
    /// As expressions write it; see [`escape`].
    pub identifier: Arc<str>,
    /// How that begins.
    prefix: Prefix,
    /// What it is.
    pub decl: Arc<Decl>,
    /// Whether it is always there.
    pub required: bool,
}

static ANYTHING: Decl = Decl { shape: Shape::Dyn, nullable: true, max_elements: 0, min_bytes: 1 };
static UNSEEN: Decl = Decl { shape: Shape::Preserved, nullable: true, max_elements: 0, min_bytes: 1 };

impl Decl {
    /// A value of one of the shapes that have no parts.
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

    /// Anything.
    pub fn anything() -> &'static Self {
        &ANYTHING
    }

    /// The same, not longer than so many characters (bytes for [`Shape::Bytes`]).
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

    /// The same, one of these texts.
    #[must_use]
    pub fn with_enum<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(longest) = values.into_iter().map(str::len).max() {
            self.max_elements = longest as u64;
        }
        self
    }

    /// The same, or null.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// A list. Without `maxItems`, as many elements as a request holds.
    pub fn list(items: impl Into<Arc<Decl>>, kind: ListKind, max_items: Option<u64>) -> Self {
        let items = items.into();
        let max_elements = max_items.unwrap_or((MAX_REQUEST_BYTES - 2) / (items.min_bytes + 1));
        Self { shape: Shape::List(items, kind), nullable: false, max_elements, min_bytes: 2 }
    }

    /// A map from text. Without `maxProperties`, as many entries as a request holds.
    pub fn map(values: impl Into<Arc<Decl>>, max_properties: Option<u64>) -> Self {
        let values = values.into();
        let max_elements = max_properties.unwrap_or((MAX_REQUEST_BYTES - 2) / (values.min_bytes + 6));
        Self { shape: Shape::Map(values), nullable: false, max_elements, min_bytes: 2 }
    }

    /// An object named after its place. Fields whose names no identifier can express are left out.
    pub fn object(fields: impl IntoIterator<Item = FieldDecl>) -> Self {
        let mut fields: Vec<FieldDecl> = fields.into_iter().collect();
        fields.sort_by(|one, other| one.identifier.cmp(&other.identifier));
        let required = fields.iter().filter(|field| field.required);
        let min_bytes =
            2 + required.map(|field| field.name.len() as u64 + field.decl.min_bytes + 4).sum::<u64>();
        let shape = Shape::Object(ObjectDecl { name: None, fields });
        Self { shape, nullable: false, max_elements: 0, min_bytes }
    }

    /// An object of a type with a name.
    pub fn named_object(name: &str, fields: impl IntoIterator<Item = FieldDecl>) -> Self {
        let mut object = Self::object(fields);
        if let Shape::Object(found) = &mut object.shape {
            found.name = Some(name.into());
        }
        object
    }

    /// What it is.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether it may be null.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The most characters, bytes, elements or entries it can have.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// How often values of this declaration fit into one request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }

    pub(crate) fn is_typed(&self) -> bool {
        !matches!(self.shape, Shape::Dyn)
    }

    /// Of what is in a list or a map.
    pub(crate) fn element(&self) -> &Decl {
        match &self.shape {
            Shape::List(element, _) | Shape::Map(element) => element,
            Shape::Dyn => &ANYTHING,
            _ => &UNSEEN,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&ObjectDecl> {
        if let Shape::Object(object) = &self.shape { Some(object) } else { None }
    }

    /// By which name expressions know a member; none if they do not.
    pub(crate) fn identifier<'d>(&'d self, name: &'d str) -> Option<&'d str> {
        match &self.shape {
            Shape::Object(object) => {
                object.fields.iter().find(|field| &*field.name == name).map(|field| &*field.identifier)
            }
            Shape::Preserved => None,
            _ => Some(name),
        }
    }

    /// The type of values of this declaration, for a place of that name.
    pub(crate) fn cel_type(&self, place: &str) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::Preserved | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::List(items, _) => Type::list(items.cel_type(&format!("{place}.@idx"))),
            Shape::Map(values) => Type::map(Type::String, values.cel_type(&format!("{place}.@elem"))),
            Shape::Object(object) => Type::object(object.type_name(place)),
        }
    }
}

impl ObjectDecl {
    /// The field of an identifier.
    pub fn field(&self, identifier: &str) -> Option<&FieldDecl> {
        let prefix = Prefix::of(identifier);
        let order =
            |field: &FieldDecl| field.prefix.cmp(&prefix).then_with(|| (*field.identifier).cmp(identifier));
        self.fields.get(self.fields.binary_search_by(order).ok()?)
    }

    /// All fields, by identifier.
    pub fn fields(&self) -> &[FieldDecl] {
        &self.fields
    }

    pub(crate) fn type_name<'a>(&'a self, place: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(place)
    }
}

impl FieldDecl {
    /// A field; none if no identifier can express its name.
    pub fn new(name: &str, decl: impl Into<Arc<Decl>>, required: bool) -> Option<Self> {
        let identifier = escape(name)?;
        let prefix = Prefix::of(&identifier);
        Some(Self { name: name.into(), identifier: identifier.into(), prefix, decl: decl.into(), required })
    }
}

/// The identifier of a field: `__dash__` for a dash and so on, `__namespace__` for a reserved word.
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
