//! Maps: borrowed from an API object, or created by evaluation.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use crate::EvalError;
use crate::decl::Decl;
use crate::names::RESERVED;

use super::{Value, compare, from_json};

#[derive(Clone, Debug)]
pub(crate) enum Map<'d> {
    /// Fields of an API object, with its declaration.
    Json(&'d JsonMap<String, Json>, &'d Decl),
    Owned(Arc<Owned<'d>>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Owned<'d> {
    pub(crate) entries: BTreeMap<Key<'d>, Value<'d>>,
    depth: usize,
}

/// A map key: usually a boolean, number or string. Equal numbers of different types are the same
/// key.
#[derive(Clone, Debug)]
pub(crate) struct Key<'d>(Value<'d>);

impl<'d> Key<'d> {
    pub(crate) fn new(value: Value<'d>) -> Option<Self> {
        let fits = match &value {
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::String(_)
            | Value::Type(_) => true,
            Value::Double(number) => !number.is_nan(),
            _ => false,
        };
        fits.then_some(Self(value))
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Value::Bool(_) => 0,
            Value::String(_) => 2,
            Value::Null => 3,
            Value::Type(_) => 4,
            _ => 1,
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank()).then_with(|| match (&self.0, &other.0) {
            (Value::Type(one), Value::Type(two)) => one.name().cmp(two.name()),
            (one, two) => compare(one, two).unwrap_or(Ordering::Equal),
        })
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl<'d> Map<'d> {
    pub(crate) fn owned(entries: BTreeMap<Key<'d>, Value<'d>>) -> Self {
        let depth = entries.values().map(Value::depth).max().unwrap_or_default() + 1;
        Self::Owned(Arc::new(Owned { entries, depth }))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(members, _) => members.len(),
            Self::Owned(owned) => owned.entries.len(),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        if let Self::Owned(owned) = self { owned.depth } else { 1 }
    }

    /// Returns the value of a key, if present.
    ///
    /// # Errors
    /// If the value does not match its declaration, or keys of this type are not supported.
    pub(crate) fn find(&self, key: &Value<'d>) -> Result<Option<Value<'d>>, EvalError> {
        match (self, key) {
            (Self::Json(..), Value::String(name)) => self.field(name.as_str()),
            (Self::Json(_, decl), _) if decl.is_typed() => Err(EvalError::no_such_overload()),
            (Self::Json(..), _) => Ok(None),
            (Self::Owned(owned), key) => {
                Ok(Key::new(key.clone()).and_then(|key| owned.entries.get(&key).cloned()))
            }
        }
    }

    /// Returns the value of a string key.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'d>>, EvalError> {
        match self {
            Self::Json(members, decl) => json_field(members, decl, name).transpose(),
            Self::Owned(owned) => {
                let key = Key(Value::String(super::Text::Shared(name.into())));
                Ok(owned.entries.get(&key).cloned())
            }
        }
    }

    /// Returns the keys, without fields that expressions cannot access.
    pub(crate) fn keys(&self) -> Vec<Value<'d>> {
        match self {
            Self::Json(members, decl) => {
                members.iter().filter_map(|(name, _)| decl.identifier(name)).map(Value::text).collect()
            }
            Self::Owned(owned) => owned.entries.keys().map(|key| key.0.clone()).collect(),
        }
    }

    pub(crate) fn entries(
        &self,
    ) -> impl Iterator<Item = Result<(Value<'d>, Value<'d>), EvalError>> + use<'d> {
        let map = self.clone();
        self.keys().into_iter().filter_map(move |key| match map.find(&key) {
            Ok(None) => None,
            Ok(Some(value)) => Some(Ok((key, value))),
            Err(error) => Some(Err(error)),
        })
    }

    /// Inserts an entry, in place if this is the only reference.
    pub(crate) fn insert(self, key: Value<'d>, value: Value<'d>) -> Result<Self, EvalError> {
        let mut owned = match self {
            Self::Owned(owned) => owned,
            json @ Self::Json(..) => {
                let entries: Result<Vec<_>, _> = json.entries().collect();
                let entries = entries?.into_iter().filter_map(|(key, value)| Some((Key::new(key)?, value)));
                Arc::new(Owned { entries: entries.collect(), depth: 1 })
            }
        };
        let key_text = key.to_string();
        let Some(key) = Key::new(key) else { return Err(EvalError::failed("unsupported key type")) };
        if value.depth() >= crate::limits::MAX_VALUE_DEPTH {
            return Err(EvalError::CostLimitExceeded);
        }
        let map = Arc::make_mut(&mut owned);
        map.depth = map.depth.max(value.depth() + 1);
        if map.entries.insert(key, value).is_some() {
            return Err(EvalError::failed(format!("insert failed: key {key_text} already exists")));
        }
        Ok(Self::Owned(owned))
    }
}

/// Returns a field of an API object.
fn json_field<'d>(
    members: &'d JsonMap<String, Json>,
    decl: &'d Decl,
    name: &str,
) -> Option<Result<Value<'d>, EvalError>> {
    let Some(object) = decl.as_object() else {
        return members.get(name).map(|member| from_json(member, decl.element()));
    };
    let field = object.field(name).or_else(|| {
        let escaped = RESERVED.contains(&name).then(|| format!("__{name}__"));
        escaped.and_then(|escaped| object.field(&escaped))
    })?;
    // A field that is null counts as absent; an entry of a map does not.
    let member = members.get(&*field.name).filter(|member| !member.is_null())?;
    Some(from_json(member, &field.decl))
}
