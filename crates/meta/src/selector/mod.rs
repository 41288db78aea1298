//! Selectors: which objects of a list, by their labels or by some of their fields.

pub mod fields;
mod label_parse;
mod label_selector;
pub mod labels;

pub use label_selector::{LabelSelector, LabelSelectorRequirement, SelectorError, ValidationOptions};
