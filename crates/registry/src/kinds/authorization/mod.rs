//! Kinds of authorization.k8s.io: reviews, which are answered and not stored.

mod attributes;
pub mod local_subject_access_review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;
