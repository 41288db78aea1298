//! Codecs between bytes and trees: JSON, YAML and protobuf.
//!
//! All of them decode an object to the same tree, in the form in which kube-apiserver would store and return it:
//! unknown fields are dropped, quantities and times are canonical, and empty fields are omitted or written exactly as
//! by Kubernetes' Go types.
//!
//! Every decoder charges the memory of its result to a [`DecodeBudget`], so that no small body becomes a large tree.

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

/// The type to decode a body as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An object of a built-in type.
    Type(TypeId),
    /// Any JSON: custom resources, which are validated against their schema later.
    Any,
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree.
    pub object: Value,
    /// Problems that strict field validation rejects and lenient validation warns of, in the order of the body.
    pub problems: Vec<Problem>,
}

/// `apiVersion` and `kind` of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `group/version`, or only the version for the core group; empty if absent.
    pub api_version: String,
    /// The kind; empty if absent.
    pub kind: String,
}

impl TypeMeta {
    /// The group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The error message for a malformed `apiVersion`.
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
