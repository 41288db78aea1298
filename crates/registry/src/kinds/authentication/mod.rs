//! Kinds of authentication.k8s.io: reviews, which are answered and not stored.

pub mod self_subject_review;
pub mod token_review;
