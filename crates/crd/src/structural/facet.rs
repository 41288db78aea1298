//! Optional attributes of schema nodes.

use serde_json::Value;

use super::node::NodeIndex;

/// An attribute of a schema node, at most one of each.
#[derive(Clone, Debug)]
pub(crate) enum Facet {
    Default(Box<Value>),
    /// As written; see [`crate::format`] for known formats.
    Format(Box<str>),
    Maximum(f64),
    Minimum(f64),
    MultipleOf(f64),
    MaxLength(i64),
    MinLength(i64),
    Pattern(Box<str>),
    MaxItems(i64),
    MinItems(i64),
    MaxProperties(i64),
    MinProperties(i64),
    Enum(Box<[Value]>),
    Required(Box<[Box<str>]>),
    AllOf(Box<[NodeIndex]>),
    AnyOf(Box<[NodeIndex]>),
    OneOf(Box<[NodeIndex]>),
    Not(NodeIndex),
    ListMapKeys(Box<[Box<str>]>),
    Rules(Box<[Rule]>),
}

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) rule: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) message_expression: Box<str>,
    pub(crate) reason: Option<Box<str>>,
    pub(crate) field_path: Box<str>,
    /// `None` if unset, which is different from false.
    pub(crate) optional_old_self: Option<bool>,
}

impl Rule {
    fn size(&self) -> usize {
        let reason = self.reason.as_deref().map_or(0, str::len);
        let texts = [&self.rule, &self.message, &self.message_expression, &self.field_path];
        size_of::<Self>() + reason + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

impl Facet {
    /// Returns the heap memory in bytes.
    pub(super) fn heap_size(&self) -> usize {
        match self {
            Self::Default(value) => size_of::<Value>() + value_size(value),
            Self::Format(text) | Self::Pattern(text) => text.len(),
            Self::Enum(values) => values.iter().map(|value| size_of::<Value>() + value_size(value)).sum(),
            Self::Required(names) | Self::ListMapKeys(names) => {
                names.iter().map(|name| size_of::<Box<str>>() + name.len()).sum()
            }
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) => size_of_val(&**nodes),
            Self::Rules(rules) => rules.iter().map(Rule::size).sum(),
            _ => 0,
        }
    }
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + value_size(item)).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| name.len() + 2 * size_of::<Value>() + value_size(field)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
