//! The object model of the Kubernetes API, pure: no I/O, no async, no clock.
//!
//! Objects are [`serde_json::Value`] trees. A [`schema::Schema`] describes their fields and how two
//! trees merge, for built-in kinds and custom resources alike.

pub mod apply;
pub mod budget;
pub mod cron;
pub mod field;
pub mod go_json;
pub mod gvk;
pub mod json_path;
pub mod name;
pub mod object;
pub mod patch;
pub mod prefix;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
#[cfg(test)]
mod testing;
pub mod time;
pub mod view;
