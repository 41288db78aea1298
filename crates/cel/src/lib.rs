//! The Kubernetes dialect of CEL, pure: parser, type checker, cost estimate, and an evaluator with
//! a budget.
//!
//! An [`Env`] declares variables and functions. It compiles an expression to a [`Program`] once;
//! the program can be evaluated any number of times, concurrently, directly on JSON.
//!
//! ```
//! use coracle_cel::{Bindings, Budget, Decl, Env, FieldDecl, Shape, Value};
//!
//! let decl = Decl::object([
//!     FieldDecl::new("replicas", Decl::scalar(Shape::Int), true).unwrap(),
//!     FieldDecl::new("created", Decl::scalar(Shape::DateTime), false).unwrap(),
//! ]);
//! let env = Env::kubernetes().declared_variable("self", "selfType", &decl);
//! let program = env.compile("self.replicas <= 5 && self.created < timestamp('2030-01-01T00:00:00Z')")?;
//! assert_eq!(program.output_type().to_string(), "bool");
//!
//! let object = serde_json::json!({"replicas": 3, "created": "2024-05-01T10:00:00Z"});
//! let bindings = Bindings::new().with_json("self", &object, &decl)?;
//! let mut budget = Budget::new(10_000_000);
//! assert_eq!(program.evaluate(&bindings, &mut budget)?.as_bool(), Some(true));
//! assert_eq!(budget.spent(), 6);
//!
//! let error = env.compile("self.replica <= 5").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "ERROR: <input>:1:5: undefined field 'replica'\n | self.replica <= 5\n | ....^"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Messages, types and costs are those of cel-go as kube-apiserver 1.36 configures it; deviations
//! are documented in the code.

mod activation;
mod ast;
mod authorizer;
mod budget;
mod check;
mod checked;
mod decl;
mod env;
mod error;
mod estimate;
mod eval;
mod library;
mod limits;
mod names;
mod plan;
pub mod policy;
mod program;
mod provider;
mod source;
mod syntax;
mod types;
mod value;

pub use activation::{Activation, Bindings, Variables};
pub use authorizer::{Authorizer, Check, Decision, ResourceCheck, Subject};
pub use budget::{Budget, PER_CALL_LIMIT, RUNTIME_COST_BUDGET};
pub use checked::Checked;
pub use decl::{Decl, FieldDecl, ListKind, MAX_REQUEST_BYTES, ObjectDecl, Shape, escape};
pub use env::Env;
pub use error::EvalError;
pub use estimate::{CostEstimate, SizeEstimate, Sizes, UnknownSizes};
pub use names::is_identifier;
pub use program::Program;
pub use provider::{MutationTypes, TypeProvider};
pub use source::{CompileError, Issue};
pub use types::Type;
pub use value::{Duration, ExtensionValue, ListValue, MapValue, Object, Text, Timestamp, Value};
