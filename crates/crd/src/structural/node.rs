//! Schema nodes and their accessors.

use coracle_meta::prefix::Prefix;
use serde_json::Value;

use super::{Facet, Rule, Structural};

/// Index of a node in the table.
pub(crate) type NodeIndex = u32;

/// The index for an absent node.
pub(super) const NONE: NodeIndex = NodeIndex::MAX;

/// The `type` of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    #[default]
    Unspecified,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `null`, which structural schemas must not use, or an unknown type.
    Other,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unspecified | Self::Other => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// The `x-kubernetes-list-type` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map,
}

/// Boolean attributes of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags(pub(super) u32);

impl Flags {
    pub(super) const NULLABLE: u32 = 1;
    pub(super) const PRESERVE: u32 = 1 << 1;
    pub(super) const EMBEDDED: u32 = 1 << 2;
    pub(super) const INT_OR_STRING: u32 = 1 << 3;
    pub(super) const MAP_ATOMIC: u32 = 1 << 4;
    pub(super) const LIST_ATOMIC: u32 = 1 << 5;
    pub(super) const LIST_SET: u32 = 1 << 6;
    pub(super) const LIST_MAP: u32 = 1 << 7;
    pub(super) const EXCLUSIVE_MAXIMUM: u32 = 1 << 8;
    pub(super) const EXCLUSIVE_MINIMUM: u32 = 1 << 9;
    pub(super) const UNIQUE_ITEMS: u32 = 1 << 10;
    /// `additionalProperties: true`
    pub(super) const ADDITIONAL_ALLOWED: u32 = 1 << 11;
    /// `additionalProperties: false`
    pub(super) const ADDITIONAL_FORBIDDEN: u32 = 1 << 12;
    /// A descendant has a default; defaulting can skip other nodes.
    pub(super) const DEFAULT_BELOW: u32 = 1 << 13;
    /// This node or a descendant is a set or a list of type map.
    pub(super) const KEYED_LISTS: u32 = 1 << 14;
    /// This node or a descendant is an embedded resource.
    pub(super) const EMBEDDED_WITHIN: u32 = 1 << 15;
    /// This node or a descendant has rules.
    pub(super) const RULES_WITHIN: u32 = 1 << 16;
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) first_property: u32,
    pub(super) property_count: u32,
    pub(super) items: NodeIndex,
    pub(super) additional: NodeIndex,
    pub(super) first_facet: u32,
    pub(super) flags: Flags,
    pub(super) facet_count: u8,
    pub(super) ty: Type,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Property {
    /// Prefix of the name, for fast search.
    pub(super) prefix: Prefix,
    pub(super) name_offset: u32,
    pub(super) name_length: u32,
    pub(super) node: NodeIndex,
}

/// The `additionalProperties` of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Additional<'s> {
    Unspecified,
    Allowed,
    Forbidden,
    Schema(Schema<'s>),
}

impl<'s> Additional<'s> {
    pub(crate) fn schema(self) -> Option<Schema<'s>> {
        match self {
            Self::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    pub(crate) fn is_specified(self) -> bool {
        !matches!(self, Self::Unspecified)
    }
}

/// Reference to a node of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'s> {
    all: &'s Structural,
    index: NodeIndex,
}

impl<'s> Schema<'s> {
    pub(super) fn new(all: &'s Structural, index: NodeIndex) -> Self {
        Self { all, index }
    }

    fn node(self) -> &'s Node {
        &self.all.nodes[self.index as usize]
    }

    fn has(self, flag: u32) -> bool {
        self.node().flags.0 & flag != 0
    }

    fn at(self, index: NodeIndex) -> Option<Self> {
        (index != NONE).then(|| Self::new(self.all, index))
    }

    pub(crate) fn ty(self) -> Type {
        self.node().ty
    }

    pub(crate) fn items(self) -> Option<Self> {
        self.at(self.node().items)
    }

    pub(crate) fn additional(self) -> Additional<'s> {
        match self.at(self.node().additional) {
            Some(schema) => Additional::Schema(schema),
            None if self.has(Flags::ADDITIONAL_ALLOWED) => Additional::Allowed,
            None if self.has(Flags::ADDITIONAL_FORBIDDEN) => Additional::Forbidden,
            None => Additional::Unspecified,
        }
    }

    /// Iterates over the properties, sorted by name.
    pub(crate) fn properties(self) -> impl ExactSizeIterator<Item = (&'s str, Self)> {
        let all = self.all;
        self.own_properties().iter().map(move |property| (all.name(*property), Self::new(all, property.node)))
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        let (properties, prefix) = (self.own_properties(), Prefix::of(name));
        let order = |property: &Property| {
            property.prefix.cmp(&prefix).then_with(|| self.all.name(*property).cmp(name))
        };
        let at = properties.binary_search_by(order).ok()?;
        self.at(properties[at].node)
    }

    /// Returns the schema of the value under a key.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| self.additional().schema())
    }

    fn own_properties(self) -> &'s [Property] {
        let node = self.node();
        let first = node.first_property as usize;
        &self.all.properties[first..first + node.property_count as usize]
    }

    pub(crate) fn facets(self) -> &'s [Facet] {
        let node = self.node();
        let first = node.first_facet as usize;
        &self.all.facets[first..first + usize::from(node.facet_count)]
    }

    pub(crate) fn nested(self, nodes: &'s [NodeIndex]) -> impl ExactSizeIterator<Item = Self> + Clone {
        let all = self.all;
        nodes.iter().map(move |index| Self::new(all, *index))
    }

    pub(crate) fn default(self) -> Option<&'s Value> {
        self.facets().iter().find_map(|facet| match facet {
            Facet::Default(value) => Some(&**value),
            _ => None,
        })
    }

    pub(crate) fn format(self) -> &'s str {
        let format = self.facets().iter().find_map(|facet| match facet {
            Facet::Format(format) => Some(&**format),
            _ => None,
        });
        format.unwrap_or("")
    }

    pub(crate) fn list_map_keys(self) -> &'s [Box<str>] {
        let keys = self.facets().iter().find_map(|facet| match facet {
            Facet::ListMapKeys(keys) => Some(&**keys),
            _ => None,
        });
        keys.unwrap_or(&[])
    }

    pub(crate) fn rules(self) -> &'s [Rule] {
        let rules = self.facets().iter().find_map(|facet| match facet {
            Facet::Rules(rules) => Some(&**rules),
            _ => None,
        });
        rules.unwrap_or(&[])
    }

    pub(crate) fn list_type(self) -> Option<ListType> {
        let types = [
            (Flags::LIST_ATOMIC, ListType::Atomic),
            (Flags::LIST_SET, ListType::Set),
            (Flags::LIST_MAP, ListType::Map),
        ];
        types.into_iter().find(|(flag, _)| self.has(*flag)).map(|(_, list_type)| list_type)
    }

    pub(crate) fn is_nullable(self) -> bool {
        self.has(Flags::NULLABLE)
    }

    pub(crate) fn preserves_unknown(self) -> bool {
        self.has(Flags::PRESERVE)
    }

    pub(crate) fn is_embedded_resource(self) -> bool {
        self.has(Flags::EMBEDDED)
    }

    pub(crate) fn is_int_or_string(self) -> bool {
        self.has(Flags::INT_OR_STRING)
    }

    pub(crate) fn is_atomic_map(self) -> bool {
        self.has(Flags::MAP_ATOMIC)
    }

    pub(crate) fn excludes_maximum(self) -> bool {
        self.has(Flags::EXCLUSIVE_MAXIMUM)
    }

    pub(crate) fn excludes_minimum(self) -> bool {
        self.has(Flags::EXCLUSIVE_MINIMUM)
    }

    pub(crate) fn has_unique_items(self) -> bool {
        self.has(Flags::UNIQUE_ITEMS)
    }

    pub(crate) fn has_defaults_below(self) -> bool {
        self.has(Flags::DEFAULT_BELOW)
    }

    pub(crate) fn has_keyed_lists(self) -> bool {
        self.has(Flags::KEYED_LISTS)
    }

    pub(crate) fn has_embedded_within(self) -> bool {
        self.has(Flags::EMBEDDED_WITHIN)
    }

    pub(crate) fn has_rules_within(self) -> bool {
        self.has(Flags::RULES_WITHIN)
    }

    /// Returns the index of the node.
    pub(crate) fn index(self) -> NodeIndex {
        self.index
    }
}

impl PartialEq for Schema<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.all, other.all) && self.index == other.index
    }
}

impl Structural {
    pub(super) fn name(&self, property: Property) -> &str {
        let offset = property.name_offset as usize;
        &self.names[offset..offset + property.name_length as usize]
    }
}
