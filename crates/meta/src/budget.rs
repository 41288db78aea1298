//! Memory budget for decoding request bodies.
//!
//! Small bodies can describe large trees: a YAML alias of a few bytes stands for a copy of a whole
//! node, `{"a":0},` in JSON needs a map node of 640 bytes, and an empty protobuf message of two
//! bytes becomes an object with all its default fields. All decoders and patches therefore charge
//! the heap memory of what they build to one [`DecodeBudget`] and stop as soon as it is exhausted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

/// Heap memory that one decoded body may take: about ten times the 3 MiB that a body may have. The largest
/// objects in use, CustomResourceDefinitions of 1.5 MiB, take less than 12 MiB; an object of 40 000
/// small maps still fits. A decoder that reaches the limit stops, and the request is rejected.
pub const MAX_DECODED_BYTES: usize = 32 * 1024 * 1024;

/// Minimum budget, for the smallest bodies; see [`DecodeBudget::for_body`].
const BASE_BYTES: usize = 1024 * 1024;

/// Decoded bytes allowed per byte of the body. `{"a":0},` takes 100 decoded bytes per byte, the
/// maximum for JSON, so only YAML aliases and empty protobuf messages reach this limit before
/// [`MAX_DECODED_BYTES`].
const BYTES_PER_BODY_BYTE: usize = 128;

/// Maximum length of JSON text that is written only to be decoded again: the JSON form of a YAML
/// body, or the result of a patch. Twice the 3 MiB that a JSON body may have, because the written
/// text may contain more escapes than the client's.
pub const MAX_JSON_TEXT_BYTES: usize = 6 * 1024 * 1024;

/// Memory of a B-tree map node: up to eleven keys and values, and a share of its ancestors.
const MAP_NODE_BYTES: usize = 720;
/// Entries that the first node of a map holds before it is split.
const FIRST_MAP_NODE_ENTRIES: usize = 11;
/// Entries per additional node: a full node is split into two halves.
const MAP_NODE_ENTRIES: usize = 6;

/// Memory of a new list, which has capacity for four items.
const FIRST_ITEMS_BYTES: usize = 144;
const FIRST_ITEMS: usize = 4;
/// Memory of an additional item: 32 bytes, times up to two because a growing list doubles its
/// capacity.
const ITEM_BYTES: usize = 64;

/// Allocator overhead per allocation.
const ALLOCATION_BYTES: usize = 16;

/// Number of charges between two checks of the stop flag.
const CHARGES_PER_STOP_CHECK: u32 = 256;

/// Reason to abort decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The decoded object takes more memory than its budget.
    #[error("the decoded object takes more than {limit} bytes of memory")]
    TooLarge {
        /// The limit of the budget.
        limit: usize,
    },
    /// The request was cancelled, so no client waits for the object.
    #[error("the request was cancelled")]
    Stopped,
}

/// Memory budget for the decoded form of one body.
#[derive(Clone, Debug)]
pub struct DecodeBudget {
    limit: usize,
    left: usize,
    stop: Option<Arc<AtomicBool>>,
    charges: u32,
    failed: Option<BudgetError>,
}

impl Default for DecodeBudget {
    fn default() -> Self {
        Self::new(MAX_DECODED_BYTES)
    }
}

impl DecodeBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, left: limit, stop: None, charges: 0, failed: None }
    }

    /// Creates the budget for a body of this size: proportional to it, capped at
    /// [`MAX_DECODED_BYTES`].
    pub fn for_body(bytes: usize) -> Self {
        let proportional = bytes.saturating_mul(BYTES_PER_BODY_BYTE).saturating_add(BASE_BYTES);
        Self::new(proportional.min(MAX_DECODED_BYTES))
    }

    /// Makes charges fail soon after `flag` is set.
    #[must_use]
    pub fn stopped_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { stop: Some(flag), ..self }
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes charged so far.
    pub fn spent(&self) -> usize {
        self.limit - self.left
    }

    /// Returns the first failure. A budget that failed once fails every later charge.
    ///
    /// # Errors
    /// If a charge failed.
    pub fn check(&self) -> Result<(), BudgetError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Charges this many bytes.
    ///
    /// # Errors
    /// If fewer bytes are left, or the stop flag is set.
    pub fn charge(&mut self, bytes: usize) -> Result<(), BudgetError> {
        self.check()?;
        self.charges = self.charges.wrapping_add(1);
        if self.charges.is_multiple_of(CHARGES_PER_STOP_CHECK)
            && self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            return Err(self.fail(BudgetError::Stopped));
        }
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.fail(BudgetError::TooLarge { limit: self.limit })),
        }
    }

    /// Charges the content of a string.
    ///
    /// # Errors
    /// As [`DecodeBudget::charge`].
    pub fn text(&mut self, bytes: usize) -> Result<(), BudgetError> {
        self.charge(text_bytes(bytes))
    }

    /// Charges the slot of an item in a list, without its content.
    ///
    /// # Errors
    /// As [`DecodeBudget::charge`].
    pub fn item(&mut self, index: usize) -> Result<(), BudgetError> {
        self.charge(item_bytes(index))
    }

    /// Charges an entry, with its key and without its value, of a map that has `entries` others.
    ///
    /// # Errors
    /// As [`DecodeBudget::charge`].
    pub fn entry(&mut self, entries: usize, key_bytes: usize) -> Result<(), BudgetError> {
        self.charge(entry_bytes(entries, key_bytes))
    }

    fn fail(&mut self, error: BudgetError) -> BudgetError {
        *self.failed.get_or_insert(error)
    }
}

/// Returns the heap memory of a tree, computed as decoders charge it. Does not recurse.
pub fn heap_bytes(value: &Value) -> usize {
    let mut bytes = 0_usize;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        bytes += match value {
            Value::String(text) => text_bytes(text.len()),
            Value::Array(items) => {
                pending.extend(items);
                (0..items.len()).map(item_bytes).sum()
            }
            Value::Object(fields) => {
                pending.extend(fields.values());
                fields.keys().enumerate().map(|(index, key)| entry_bytes(index, key.len())).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        };
    }
    bytes
}

const fn text_bytes(length: usize) -> usize {
    if length == 0 { 0 } else { length + ALLOCATION_BYTES }
}

const fn item_bytes(index: usize) -> usize {
    match index {
        0 => FIRST_ITEMS_BYTES,
        1..FIRST_ITEMS => 0,
        _ => ITEM_BYTES,
    }
}

/// Returns the memory that an entry adds to a map of `entries` others, without its value.
pub const fn entry_bytes(entries: usize, key_bytes: usize) -> usize {
    let splits = entries >= FIRST_MAP_NODE_ENTRIES
        && (entries - FIRST_MAP_NODE_ENTRIES).is_multiple_of(MAP_NODE_ENTRIES);
    let node = if entries == 0 || splits { MAP_NODE_BYTES } else { 0 };
    node + text_bytes(key_bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn budget_for_body_is_proportional_and_capped() {
        assert_eq!(DecodeBudget::for_body(0).limit(), BASE_BYTES);
        assert_eq!(DecodeBudget::for_body(1000).limit(), BASE_BYTES + 128_000);
        assert_eq!(DecodeBudget::for_body(usize::MAX).limit(), MAX_DECODED_BYTES);
    }

    #[test]
    fn exhausted_budget_rejects_every_further_charge() {
        let mut budget = DecodeBudget::new(100);
        assert_eq!(budget.charge(60), Ok(()));
        assert_eq!(budget.charge(41), Err(BudgetError::TooLarge { limit: 100 }));
        assert_eq!(budget.charge(1), Err(BudgetError::TooLarge { limit: 100 }));
        assert_eq!(budget.spent(), 60);
    }

    #[test]
    fn charges_after_stop_flag_is_set_fail() {
        let flag = Arc::new(AtomicBool::new(false));
        let mut budget = DecodeBudget::default().stopped_by(flag.clone());
        (0..10_000).for_each(|_| budget.charge(1).unwrap());
        flag.store(true, Ordering::Relaxed);
        let charges = (0..=CHARGES_PER_STOP_CHECK).map(|_| budget.charge(1));
        assert!(charges.into_iter().any(|charged| charged == Err(BudgetError::Stopped)));
    }

    #[test]
    fn charges_of_decoder_equal_heap_bytes_of_tree() {
        let tree = json!({"a": [1, [], "text", {}, {"b": null}], "c": "d"});
        let mut budget = DecodeBudget::default();
        budget.entry(0, 1).unwrap();
        (0..5).for_each(|index| budget.item(index).unwrap());
        budget.text(4).unwrap();
        budget.entry(0, 1).unwrap();
        budget.entry(1, 1).unwrap();
        budget.text(1).unwrap();
        assert_eq!(budget.spent(), heap_bytes(&tree));
    }
}
