//! Evaluation of comprehensions.

use crate::EvalError;
use crate::plan::{Accumulator, FoldNode, NodeId};
use crate::value::{List, ListValue, MapValue, Value};

use super::{Flow, Machine, READ_COST, absorbed};

/// Cost of concatenating two lists, and of inserting into a map.
const APPEND_COST: u64 = 1;

impl<'d> Machine<'_, 'd> {
    pub(super) fn fold(&mut self, fold: &'d FoldNode) -> Flow<'d> {
        // The slots may contain values of another comprehension in the same outer comprehension.
        self.slots[usize::from(fold.accumulator.slot)] = None;
        let range = self.eval(fold.range)?;
        match range {
            Value::List(list) => self.fold_list(fold, &list)?,
            Value::Map(map) => {
                for key in map.0.keys() {
                    let second = match fold.second_variable {
                        Some(_) => Some(map.0.find(&key).map(|value| value.unwrap_or(Value::Null))),
                        None => None,
                    };
                    if !self.iterate(fold, Ok(key), second)? {
                        break;
                    }
                }
            }
            other => {
                let found = other.go_type();
                return Err(EvalError::failed(match fold.second_variable {
                    None => format!("got '{found}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {found}"),
                }));
            }
        }
        let result = self.eval(fold.result);
        self.slots[usize::from(fold.accumulator.slot)] = None;
        result
    }

    fn fold_list(&mut self, fold: &'d FoldNode, list: &ListValue<'d>) -> Result<(), EvalError> {
        for (index, element) in list.0.iter().enumerate() {
            let more = if fold.second_variable.is_some() {
                let index = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                self.iterate(fold, Ok(index), Some(element))?
            } else {
                self.iterate(fold, element, None)?
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Evaluates one iteration. Returns false if the loop condition ends the comprehension.
    fn iterate(
        &mut self,
        fold: &'d FoldNode,
        first: Flow<'d>,
        second: Option<Flow<'d>>,
    ) -> Result<bool, EvalError> {
        self.slots[usize::from(fold.variable)] = Some(first);
        if let Some(slot) = fold.second_variable {
            self.slots[usize::from(slot)] = second;
        }
        if let Ok(Value::Bool(false)) = absorbed(self.eval(fold.condition))? {
            return Ok(false);
        }
        let step = absorbed(self.eval(fold.step))?;
        self.slots[usize::from(fold.accumulator.slot)] = Some(step);
        if self.activation.is_interrupted() {
            return Err(EvalError::Interrupted);
        }
        Ok(true)
    }

    /// Evaluates `accumulator + [element]` in place.
    pub(super) fn append(&mut self, accumulator: Accumulator, element: NodeId, list_cost: u64) -> Flow<'d> {
        let accumulated = self.accumulated(accumulator).map(drop);
        let accumulated = match accumulated {
            Err(cancelled) if !matches!(cancelled, EvalError::Failed(_)) => return Err(cancelled),
            accumulated => accumulated,
        };
        self.charge(READ_COST)?;
        let element = absorbed(self.eval(element))?;
        self.charge(list_cost + APPEND_COST)?;
        accumulated?;
        let element = element?;
        match self.slots[usize::from(accumulator.slot)].take() {
            Some(Ok(Value::List(list))) => Ok(Value::List(ListValue(list.0.push(element)?))),
            Some(Ok(_)) | None => Ok(Value::List(ListValue(List::owned(vec![element])))),
            Some(Err(error)) => Err(error),
        }
    }

    /// Inserts entries into the accumulated map in place.
    pub(super) fn insert(
        &mut self,
        accumulator: Accumulator,
        key: Option<NodeId>,
        value: NodeId,
    ) -> Flow<'d> {
        self.accumulated(accumulator).map(drop)?;
        self.charge(READ_COST)?;
        let key = key.map(|key| self.eval(key)).transpose()?;
        let value = self.eval(value)?;
        self.charge(APPEND_COST)?;
        let Some(Ok(Value::Map(MapValue(mut map)))) = self.slots[usize::from(accumulator.slot)].take() else {
            return Err(EvalError::no_such_overload());
        };
        match (key, value) {
            (Some(key), value) => map = map.insert(key, value)?,
            (None, Value::Map(more)) => {
                for entry in more.0.entries() {
                    let (key, value) = entry?;
                    map = map.insert(key, value)?;
                }
            }
            (None, _) => return Err(EvalError::no_such_overload()),
        }
        Ok(Value::Map(MapValue(map)))
    }
}
