//! Label selectors and field selectors.

pub mod fields;
mod label_parse;
mod label_selector;
pub mod labels;

pub use label_selector::{LabelSelector, LabelSelectorRequirement, SelectorError, ValidationOptions};
