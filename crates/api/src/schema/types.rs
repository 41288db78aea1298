//! The table of types for the codecs.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::attributes::Attributes;
use super::data;

/// A struct type of a [`Types`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(super) u16);

/// All types of the API.
#[derive(Debug, Default)]
pub struct Types {
    pub(super) all: Vec<Type>,
    pub(super) by_name: HashMap<(&'static str, &'static str), TypeId>,
    pub(super) by_kind: HashMap<(&'static str, &'static str, &'static str), TypeId>,
    /// Kinds that are part of every group and version, such as `DeleteOptions`.
    pub(super) everywhere: Vec<TypeId>,
}

/// A struct type.
#[derive(Debug)]
pub struct Type {
    /// The package of its OpenAPI definition, such as `io.k8s.api.core.v1`.
    pub package: &'static str,
    /// Its name in the package, such as `Pod`.
    pub name: &'static str,
    /// Its fields, sorted by name.
    pub fields: Box<[Field]>,
    /// The first bytes of the field names, for fast lookups; see [`beginning`].
    pub(super) beginnings: Box<[u64]>,
    /// The fields of its protobuf message, sorted by number.
    pub message: Box<[Entry]>,
    /// Attributes for patches, apply and schemas.
    pub attributes: Attributes,
}

/// A field of a [`Type`].
#[derive(Clone, Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// Type of the value.
    pub shape: Shape,
    /// Whether the field is required in the published schema.
    pub required: bool,
    /// Whether the field is omitted when empty.
    pub omit_empty: bool,
    /// Whether the field is a pointer in Go, so that absent and empty differ: `0` is a value, and `null` is absent.
    pub pointer: bool,
    /// Whether an empty list stays empty instead of `null`.
    pub keep_empty: bool,
    /// Whether the empty value is the default in the published schema.
    pub zero_default: bool,
    /// Attributes for patches, apply and schemas.
    pub attributes: Attributes,
}

/// Type of the value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value.
    One(Item),
    /// A list.
    List(Item),
    /// A map with string keys.
    Map(Item),
}

/// Type of a value, list item or map entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A scalar, or an object without known fields.
    Single(Single),
    /// An object of a struct type.
    Struct(TypeId),
}

/// Types that are not structs in JSON, whatever they are in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// A string.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// A boolean.
    Boolean,
    /// `IntOrString`.
    IntOrString,
    /// `Quantity`.
    Quantity,
    /// `Time`: a timestamp with seconds.
    Time,
    /// `MicroTime`: a timestamp with microseconds.
    MicroTime,
    /// `RawExtension`: any JSON, such as an object of an unknown kind.
    RawExtension,
    /// `FieldsV1`: the fields of a manager.
    FieldsV1,
    /// `JSON` of apiextensions: any JSON, in the schema of a custom resource.
    Json,
    /// `JSONSchemaPropsOrArray`: a JSON schema, or a list of them.
    SchemaOrArray,
    /// `JSONSchemaPropsOrBool`: a JSON schema, or whether any value is allowed.
    SchemaOrBool,
    /// `JSONSchemaPropsOrStringArray`: a JSON schema, or a list of property names.
    SchemaOrStringArray,
    /// A list of strings that protobuf wraps in a message of its own.
    Strings,
    /// `Patch`: the body of a patch request.
    Patch,
}

/// A field of a protobuf message.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Field number.
    pub number: u32,
    /// The field of the type.
    pub slot: Slot,
}

/// Meaning of a field of a protobuf message.
#[derive(Clone, Debug)]
pub enum Slot {
    /// The field of the type at this index.
    Field(u16),
    /// An embedded message, whose fields are fields of the outer type in JSON.
    Embedded(Box<[Entry]>),
}

static TYPES: LazyLock<Types> = LazyLock::new(data::expand);

/// The types of the API, expanded on first use.
pub fn types() -> &'static Types {
    &TYPES
}

impl Types {
    /// The type of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let in_every_version = || self.everywhere.iter().copied().find(|id| self.get(*id).name == kind);
        self.by_kind.get(&(group, version, kind)).copied().or_else(in_every_version)
    }

    /// The type with a full name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        let (package, name) = name.rsplit_once('.')?;
        self.by_name.get(&(package, name)).copied()
    }

    /// A type of this table.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.all[usize::from(id.0)]
    }

    /// All types, sorted by package and name.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0..).map(TypeId).zip(&self.all)
    }

    /// All kinds as group, version, kind and type, in no particular order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str, TypeId)> {
        self.by_kind.iter().map(|((group, version, kind), id)| (*group, *version, *kind, *id))
    }
}

impl Type {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        Some(&self.fields[self.index_of(name.as_bytes())?])
    }

    /// The index of the field with this name.
    pub fn index_of(&self, name: &[u8]) -> Option<usize> {
        let beginning = beginning(name);
        let first = self.beginnings.partition_point(|other| *other < beginning);
        let alike = self.beginnings[first..].iter().take_while(|other| **other == beginning);
        // Names with equal first bytes and equal length are equal unless they are longer than these bytes.
        let is_named = |field: &Field| {
            field.name.len() == name.len() && (name.len() <= 8 || field.name.as_bytes() == name)
        };
        alike.zip(&self.fields[first..]).position(|(_, field)| is_named(field)).map(|at| first + at)
    }
}

/// The first eight bytes of a name as a number, padded with zeros. The numbers sort like the names, and comparing
/// them takes a fraction of the time.
pub(super) fn beginning(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(8);
    bytes[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(bytes)
}
