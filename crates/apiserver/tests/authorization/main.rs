//! Authorization through the whole server: every route, roles and bindings, and attempts of privilege
//! escalation.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod creation;
mod escalation;
mod impersonation;
mod paths;
mod refusals;
mod reviews;
mod roles;
mod server;
mod walk;
