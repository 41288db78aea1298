//! Pods of a controller: creates them from a template, deletes them, and adopts matching orphans.
//!
//! Works for all kinds of owners. A controller waits before its next reconcile until the informer has seen its writes
//! ([`PodControl::seen`]), so that no pod is created twice.

mod batch;
mod claim;
mod control;
mod hash;
mod owner;
mod ranking;
mod related;
mod stale;

pub(crate) use batch::{MAX_IN_FLIGHT, slow_start};
pub(crate) use claim::{ClaimError, Claims};
pub(crate) use control::PodControl;
pub(crate) use hash::template_hash;
pub(crate) use owner::{Owner, OwnerKind, pod_from_template};
pub(crate) use ranking::deletion_order;
pub(crate) use related::{controlled_by, index_by_controller, orphans_in_namespace, owners_to_enqueue};
pub(crate) use stale::StaleSyncs;
