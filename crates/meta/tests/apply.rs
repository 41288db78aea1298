//! Tests of field management and server-side apply through the public API.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "apply/fixture.rs"]
mod fixture;
#[path = "apply/lists.rs"]
mod lists;
#[path = "apply/managed.rs"]
mod managed;
#[path = "apply/migration.rs"]
mod migration;
#[path = "apply/ownership.rs"]
mod ownership;
#[path = "apply/properties.rs"]
mod properties;
#[path = "apply/typed.rs"]
mod typed;
#[path = "apply/versions.rs"]
mod versions;
