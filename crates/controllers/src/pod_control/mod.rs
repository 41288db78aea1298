//! How a controller has pods: it makes them from a template, deletes them, and takes on those that fit its
//! selector and belong to nobody.
//!
//! All of it is for any kind of owner. Whoever makes or deletes pods waits before its next decision until the
//! informer has seen that ([`PodControl::seen`]), so nothing is made twice.

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
pub(crate) use related::{controlled_by, index_by_controller, orphans_beside, owners_concerned};
pub(crate) use stale::StaleSyncs;
