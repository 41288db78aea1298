//! The table of types that the codecs walk.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::attributes::Attributes;
use super::data;

/// One struct type of a [`Types`] table.
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

/// A struct type: fields by name.
#[derive(Debug)]
pub struct Type {
    /// The package it is published under, such as `io.k8s.api.core.v1`.
    pub package: &'static str,
    /// Its name there, such as `Pod`.
    pub name: &'static str,
    /// Its fields, ascending by name.
    pub fields: Box<[Field]>,
    /// The beginnings of their names; see [`beginning`].
    pub(super) beginnings: Box<[u64]>,
    /// What a protobuf message of it holds, ascending by number.
    pub message: Box<[Entry]>,
    /// Its merge facts.
    pub attributes: Attributes,
}

/// A field of a [`Type`].
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// It must be there for a client's validation to pass.
    pub required: bool,
    /// It is not written when it is empty.
    pub omit_empty: bool,
    /// It tells absence from emptiness: `0` is a value, and it is `null` when absent.
    pub pointer: bool,
    /// An empty list stays one and does not become `null`.
    pub keep_empty: bool,
    /// The published schema names the empty value as its default.
    pub zero_default: bool,
    /// Its merge facts.
    pub attributes: Attributes,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One of these.
    One(Item),
    /// A list of these.
    List(Item),
    /// A map from text to these.
    Map(Item),
}

/// What is in a field, list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A value without fields, or whose fields are not told.
    Single(Single),
    /// An object of a type.
    Struct(TypeId),
}

/// Values that are not struct types in JSON, whatever they are in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// Text.
    String,
    /// Bytes, in base64 in JSON.
    Bytes,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// True or false.
    Boolean,
    /// A number or text.
    IntOrString,
    /// An amount with a unit.
    Quantity,
    /// A point in time, to the second.
    Time,
    /// A point in time, to the microsecond.
    MicroTime,
    /// Any JSON, such as an object of an unknown kind.
    RawExtension,
    /// The fields that a manager owns.
    FieldsV1,
    /// Any JSON, in the schema of a custom resource.
    Json,
    /// A JSON schema, or a list of them.
    SchemaOrArray,
    /// A JSON schema, or whether anything is allowed.
    SchemaOrBool,
    /// A JSON schema, or a list of names.
    SchemaOrStringArray,
    /// A list of texts that protobuf wraps in a message of its own.
    Strings,
    /// The body of a patch.
    Patch,
}

/// A field of a protobuf message.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// What is there.
    pub slot: Slot,
}

/// What is under a number of a protobuf message.
#[derive(Clone, Debug)]
pub enum Slot {
    /// The field of the type at this index.
    Field(u16),
    /// A message whose fields are among those of the type itself in JSON.
    Embedded(Box<[Entry]>),
}

static TYPES: LazyLock<Types> = LazyLock::new(data::expand);

/// The types of the API, expanded when they are first asked for.
pub fn types() -> &'static Types {
    &TYPES
}

impl Types {
    /// The type of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let in_every_version = || self.everywhere.iter().copied().find(|id| self.get(*id).name == kind);
        self.by_kind.get(&(group, version, kind)).copied().or_else(in_every_version)
    }

    /// The type of a full name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        let (package, name) = name.rsplit_once('.')?;
        self.by_name.get(&(package, name)).copied()
    }

    /// A type of this table.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.all[usize::from(id.0)]
    }

    /// All types, by package and name.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0..).map(TypeId).zip(&self.all)
    }

    /// All kinds as group, version, kind and type, in no particular order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str, TypeId)> {
        self.by_kind.iter().map(|((group, version, kind), id)| (*group, *version, *kind, *id))
    }
}

impl Type {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        Some(&self.fields[self.index_of(name.as_bytes())?])
    }

    /// Where the field of this name is among its fields.
    pub fn index_of(&self, name: &[u8]) -> Option<usize> {
        let beginning = beginning(name);
        let first = self.beginnings.partition_point(|other| *other < beginning);
        let alike = self.beginnings[first..].iter().take_while(|other| **other == beginning);
        // A field that begins alike and is as long is the same if nothing follows the beginning.
        let is_named = |field: &Field| {
            field.name.len() == name.len() && (name.len() <= 8 || field.name.as_bytes() == name)
        };
        alike.zip(&self.fields[first..]).position(|(_, field)| is_named(field)).map(|at| first + at)
    }
}

/// The first eight bytes of a name as a number, filled up with zeros. The numbers sort as the names do, and comparing
/// them takes a fraction of the time.
pub(super) fn beginning(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(8);
    bytes[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(bytes)
}
