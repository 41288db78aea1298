//! Fuzzing of everything that parses client input.
//!
//! A target is a function from bytes to an outcome, a short description of the result. It panics if an invariant is
//! violated. The corpus of a target (`corpus/<target>/`) has one input for each outcome seen so far, so it covers
//! every kind of rejection; a run mutates these inputs, and an input with a new outcome joins the corpus. This needs
//! no special compiler, so it runs with the tests.

pub mod corpus;
pub mod mutate;
pub mod targets;
