//! The group `events.k8s.io`.

pub mod event;
