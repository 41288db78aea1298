//! Merge of an applied configuration into an object.
//!
//! The merge removes nothing; where both have a value, the configuration wins.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::path_element::PathElement;

impl Type<'_> {
    /// Returns the object with the configuration merged into it. Both have been validated.
    pub fn merge(self, live: Value, config: &Value) -> Value {
        match (self.shape(config), config) {
            (Shape::Map(shape), _) if !shape.is_atomic() => merge_maps(shape, live, config),
            (Shape::List(shape), _) if !shape.is_atomic() => merge_lists(shape, live, config),
            _ => config.clone(),
        }
    }
}

fn merge_maps(shape: MapShape<'_>, live: Value, config: &Value) -> Value {
    match (live, config) {
        (Value::Object(mut merged), Value::Object(fields)) if !merged.is_empty() => {
            for (name, value) in fields {
                merge_entry(shape, &mut merged, name, value);
            }
            Value::Object(merged)
        }
        // A `null` in the configuration for a map or list leaves the live entries unchanged.
        (Value::Object(live), Value::Null) if !live.is_empty() => Value::Object(live),
        (_, config) => config.clone(),
    }
}

fn merge_entry(shape: MapShape<'_>, merged: &mut Map<String, Value>, name: &str, config: &Value) {
    match merged.get_mut(name) {
        Some(live) => *live = shape.child(name).merge(live.take(), config),
        None => {
            merged.insert(name.to_owned(), config.clone());
        }
    }
}

fn merge_lists(shape: ListShape<'_>, live: Value, config: &Value) -> Value {
    match (live, config) {
        (Value::Array(live), Value::Array(config)) if !live.is_empty() => {
            Value::Array(ListMerger::new(shape, live, config).merge())
        }
        (Value::Array(live), Value::Null) if !live.is_empty() => Value::Array(live),
        (_, config) => config.clone(),
    }
}

/// Merges two lists whose items are identified by keys or values.
///
/// Items of the configuration are in its order. Items that only the live object has stay in place
/// relative to items that both have, and come before new ones.
struct ListMerger<'s, 'c> {
    shape: ListShape<'s>,
    live: Vec<(PathElement, Option<Value>)>,
    config: Vec<(PathElement, &'c Value)>,
    states: BTreeMap<PathElement, ItemState>,
    /// For each index in the configuration, the first index from there on whose item is in both
    /// lists.
    next_shared: Vec<Option<usize>>,
    merged: Vec<Value>,
}

/// State of an item of the configuration.
struct ItemState {
    /// Index in the live list, and true if it occurs there more than once.
    live: Option<(usize, bool)>,
    is_merged: bool,
}

impl<'s, 'c> ListMerger<'s, 'c> {
    fn new(shape: ListShape<'s>, live: Vec<Value>, config: &'c [Value]) -> Self {
        let element = |item: &Value| shape.element(item).ok();
        let live: Vec<_> = live.into_iter().filter_map(|item| Some((element(&item)?, Some(item)))).collect();
        let config: Vec<_> = config.iter().filter_map(|item| Some((element(item)?, item))).collect();
        let mut states: BTreeMap<_, _> = config
            .iter()
            .map(|(element, _)| (element.clone(), ItemState { live: None, is_merged: false }))
            .collect();
        for (at, (element, _)) in live.iter().enumerate() {
            if let Some(state) = states.get_mut(element) {
                state.live = Some((at, state.live.is_some()));
            }
        }
        let mut next_shared = vec![None; config.len() + 1];
        for at in (0..config.len()).rev() {
            let is_shared = states.get(&config[at].0).is_some_and(|state| state.live.is_some());
            next_shared[at] = if is_shared { Some(at) } else { next_shared[at + 1] };
        }
        let merged = Vec::with_capacity(live.len().max(config.len()));
        Self { shape, live, config, states, next_shared, merged }
    }

    fn merge(mut self) -> Vec<Value> {
        let mut live = 0;
        for next in 0..self.config.len() {
            live = self.push_live(live, next);
            let element = &self.config[next].0;
            if self.live.get(live).is_some_and(|(other, _)| other == element) {
                live += 1;
            }
            self.push_config(next);
        }
        self.push_live(live, self.config.len());
        self.merged
    }

    /// Appends the live-only items that belong before item `next` of the configuration. Returns the
    /// live index to continue from.
    fn push_live(&mut self, mut at: usize, next: usize) -> usize {
        while at < self.live.len() {
            match self.states.get(&self.live[at].0) {
                None => {
                    self.merged.extend(self.live[at].1.take());
                    at += 1;
                }
                // The configuration orders this item elsewhere.
                Some(_)
                    if self.next_shared[next]
                        .is_some_and(|shared| self.config[shared].0 != self.live[at].0) =>
                {
                    at += 1;
                }
                Some(state) if state.is_merged => {
                    at += 1;
                    if next < self.config.len() {
                        break;
                    }
                }
                Some(_) => break,
            }
        }
        at
    }

    fn push_config(&mut self, at: usize) {
        let (element, config) = (&self.config[at].0, self.config[at].1);
        let Some(state) = self.states.get_mut(element) else { return };
        state.is_merged = true;
        let item = match state.live {
            // Several live items have these keys: none is chosen to merge with.
            Some((live, false)) => match self.live[live].1.take() {
                Some(live) => self.shape.item().merge(live, config),
                None => config.clone(),
            },
            _ => config.clone(),
        };
        self.merged.push(item);
    }
}
