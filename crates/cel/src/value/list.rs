//! Lists: borrowed from an API object, created by evaluation, or a concatenation of two.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::EvalError;
use crate::decl::Decl;
use crate::limits::{MAX_LIST_ELEMENTS, MAX_VALUE_DEPTH};

use super::{Value, from_json};

#[derive(Clone, Debug)]
pub(crate) enum List<'d> {
    /// Elements of an API object, with the declaration of the list.
    Json(&'d [Json], &'d Decl),
    Owned(Arc<Owned<'d>>),
    Joined(Arc<Joined<'d>>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Owned<'d> {
    elements: Vec<Value<'d>>,
    depth: usize,
    /// Declaration of the concatenated lists, if it requires unique elements.
    decl: Option<&'d Decl>,
}

/// The concatenation of two lists. Concatenation costs one unit, so it must not copy.
#[derive(Debug)]
pub(crate) struct Joined<'d> {
    left: List<'d>,
    right: List<'d>,
    length: usize,
    /// Nesting depth of concatenations, which is the recursion depth of a lookup.
    height: usize,
    depth: usize,
}

/// Maximum nesting depth of concatenations; beyond it the elements are copied into one list.
const MAX_JOINS: usize = 64;

impl<'d> List<'d> {
    pub(crate) fn owned(elements: Vec<Value<'d>>) -> Self {
        let depth = elements.iter().map(Value::depth).max().unwrap_or_default() + 1;
        Self::Owned(Arc::new(Owned { elements, depth, decl: None }))
    }

    /// Like [`Self::owned`], with the declaration of a set or map.
    pub(super) fn declared(elements: Vec<Value<'d>>, decl: &'d Decl) -> Self {
        let depth = elements.iter().map(Value::depth).max().unwrap_or_default() + 1;
        Self::Owned(Arc::new(Owned { elements, depth, decl: Some(decl) }))
    }

    /// Returns the declaration, if any.
    pub(crate) fn decl(&self) -> Option<&'d Decl> {
        match self {
            Self::Json(_, decl) => Some(decl),
            Self::Owned(owned) => owned.decl,
            Self::Joined(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(elements, _) => elements.len(),
            Self::Owned(owned) => owned.elements.len(),
            Self::Joined(joined) => joined.length,
        }
    }

    /// Returns the nesting depth of the values; that of API objects was limited when they were
    /// decoded.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Json(..) => 1,
            Self::Owned(owned) => owned.depth,
            Self::Joined(joined) => joined.depth,
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'d>, EvalError>> {
        match self {
            Self::Json(elements, decl) => {
                elements.get(index).map(|element| from_json(element, decl.element()))
            }
            Self::Owned(owned) => owned.elements.get(index).cloned().map(Ok),
            Self::Joined(joined) => match index.checked_sub(joined.left.len()) {
                None => joined.left.get(index),
                Some(index) => joined.right.get(index),
            },
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'d>, EvalError>> + use<'d> {
        let list = self.clone();
        (0..self.len()).map_while(move |index| list.get(index))
    }

    /// Appends an element, in place if this is the only reference.
    pub(crate) fn push(self, element: Value<'d>) -> Result<Self, EvalError> {
        if self.len() >= MAX_LIST_ELEMENTS || element.depth() >= MAX_VALUE_DEPTH {
            return Err(EvalError::CostLimitExceeded);
        }
        match self {
            Self::Owned(mut owned) => {
                let list = Arc::make_mut(&mut owned);
                list.depth = list.depth.max(element.depth() + 1);
                list.elements.push(element);
                Ok(Self::Owned(owned))
            }
            other => other.join(&Self::owned(vec![element])),
        }
    }

    /// Concatenates two lists. Lists declared as set or map keep their elements unique.
    pub(crate) fn join(&self, other: &Self) -> Result<Self, EvalError> {
        if let Some(merged) = self.decl().and_then(|decl| super::json::merge(self, decl, other)) {
            return merged;
        }
        let length = self.len().saturating_add(other.len());
        let height = self.height().max(other.height()) + 1;
        let depth = self.depth().max(other.depth());
        if length > MAX_LIST_ELEMENTS {
            return Err(EvalError::CostLimitExceeded);
        }
        if height > MAX_JOINS {
            let elements: Result<Vec<_>, _> = self.iter().chain(other.iter()).collect();
            return Ok(Self::owned(elements?));
        }
        let (left, right) = (self.clone(), other.clone());
        Ok(Self::Joined(Arc::new(Joined { left, right, length, height, depth })))
    }

    fn height(&self) -> usize {
        if let Self::Joined(joined) = self { joined.height } else { 0 }
    }
}
