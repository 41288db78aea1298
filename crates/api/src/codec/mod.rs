//! Bytes to trees and back, in the three forms clients speak.
//!
//! All of them give the same tree for the same object, in the form in which upstream would
//! store and return it: unknown fields dropped, amounts and times in their canonical form, empty
//! fields left out or written exactly as upstream's types do.
//!
//! Every decoder charges the memory of what it builds to a [`DecodeBudget`], so that no small body becomes a large
//! tree.

pub mod json;
pub mod protobuf;
pub mod yaml;

mod empty;
mod error;
mod quantity;
mod text;
mod time;

pub use coracle_meta::budget::DecodeBudget;
pub use empty::{settle, unset_field};
pub use error::{DecodeError, Problem};

use serde_json::Value;

use crate::schema::TypeId;

/// What a body is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An object of a built-in type.
    Type(TypeId),
    /// Any JSON: custom resources, which are checked against their schema later.
    Any,
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree.
    pub object: Value,
    /// What a strict reader refuses and a lenient one warns of, in the order it was found.
    pub problems: Vec<Problem>,
}

/// The kind a body says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `group/version`, or only the version for the core group; empty if it does not say.
    pub api_version: String,
    /// The kind; empty if it does not say.
    pub kind: String,
}

impl TypeMeta {
    /// The group, which is empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// What is wrong with the version, if it cannot be one.
    pub fn malformed_version(&self) -> Option<String> {
        let malformed = self.api_version.matches('/').count() > 1;
        malformed.then(|| format!("unexpected GroupVersion string: {}", self.api_version))
    }

    /// The version without the group.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&self.api_version, |(_, version)| version)
    }
}

/// Runs a test that recurses over values of the maximum depth, on a stack as large as that of requests.
#[cfg(test)]
fn on_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(test).expect("a thread");
    thread.join().expect("the test passes");
}
