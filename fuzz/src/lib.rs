//! Hostile input for everything that reads what clients send.
//!
//! A target is a function from bytes to an outcome: what became of them, in few words. It panics
//! when a promise is broken. The corpus of a target (`corpus/<target>/`) holds one input for each
//! outcome that was ever seen, so that it covers every refusal there is; a run mutates them, and
//! an input with an outcome nobody has seen joins the corpus. That needs no compiler of its own,
//! and so runs with the tests.

pub mod corpus;
pub mod mutate;
pub mod targets;
