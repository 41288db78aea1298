//! Kinds of authentication.k8s.io: questions that are answered and not kept.

pub mod self_subject_review;
pub mod token_review;
