//! Evaluation of list, map and object literals.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::EvalError;
use crate::limits::MAX_VALUE_DEPTH;
use crate::plan::{NodeId, ObjectNode};
use crate::value::{Key, Map, MapValue, Object, Value};

use super::{Flow, Machine};

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

impl<'d> Machine<'_, 'd> {
    pub(super) fn list(&mut self, elements: &'d [(NodeId, bool)]) -> Flow<'d> {
        let built = self.elements(elements);
        self.charge(LIST_COST)?;
        bounded(Value::list(built?))
    }

    fn elements(&mut self, elements: &'d [(NodeId, bool)]) -> Result<Vec<Value<'d>>, EvalError> {
        let mut values = Vec::with_capacity(elements.len());
        for (id, optional) in elements {
            match (self.eval(*id)?, optional) {
                (value, false) => values.push(value),
                (Value::Optional(Some(inner)), true) => values.push(Value::clone(&inner)),
                (Value::Optional(None), true) => {}
                (other, true) => {
                    let message =
                        format!("cannot initialize optional list element from non-optional value {other}");
                    return Err(EvalError::failed(message));
                }
            }
        }
        Ok(values)
    }

    pub(super) fn map(&mut self, entries: &'d [(NodeId, NodeId, bool)]) -> Flow<'d> {
        let built = self.entries(entries);
        self.charge(MAP_COST)?;
        bounded(Value::Map(MapValue(Map::owned(built?))))
    }

    fn entries(
        &mut self,
        entries: &'d [(NodeId, NodeId, bool)],
    ) -> Result<BTreeMap<Key<'d>, Value<'d>>, EvalError> {
        let mut built = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.eval(*key)?;
            let value = self.eval(*value)?;
            let value = if *optional { unwrap_entry(&key, value)? } else { Some(value) };
            let Some(key) = Key::new(key) else { return Err(EvalError::failed("unsupported key type")) };
            match value {
                Some(value) => built.insert(key, value),
                None => built.remove(&key),
            };
        }
        Ok(built)
    }

    pub(super) fn object(&mut self, node: &'d ObjectNode) -> Flow<'d> {
        let fields = self.fields(node);
        self.charge(STRUCT_COST)?;
        let object = Object { type_name: node.type_name.clone(), fields: fields? };
        if let Some(provider) = self.provider {
            provider.check_object(&object)?;
        }
        bounded(Value::Object(Arc::new(object)))
    }

    fn fields(&mut self, node: &'d ObjectNode) -> Result<Vec<(Arc<str>, Value<'d>)>, EvalError> {
        let mut fields: Vec<(Arc<str>, Value<'d>)> = Vec::with_capacity(node.fields.len());
        for (name, id, optional) in &node.fields {
            let value = self.eval(*id)?;
            let value = if *optional { unwrap_entry(&Value::text(name), value)? } else { Some(value) };
            fields.retain(|(existing, _)| existing != name);
            fields.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(fields)
    }
}

/// Returns the value of an optional entry, if any.
fn unwrap_entry<'d>(key: &Value<'d>, value: Value<'d>) -> Result<Option<Value<'d>>, EvalError> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| Value::clone(&inner))),
        other => {
            let message = format!("cannot initialize optional entry '{key}' from non-optional value {other}");
            Err(EvalError::failed(message))
        }
    }
}

fn bounded(value: Value<'_>) -> Flow<'_> {
    if value.depth() > MAX_VALUE_DEPTH { Err(EvalError::CostLimitExceeded) } else { Ok(value) }
}
