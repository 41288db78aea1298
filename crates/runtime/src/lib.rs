//! How any controller runs, ours and a user's: informers that know what is there, an exact queue of what
//! has to be looked at, and a manager that owns the tasks.
//!
//! Everything goes through a [`kube::Client`], in one process or over a network alike. What a controller
//! decides is its own business; see `coracle-controllers`.
//!
//! Reconciling is level-triggered: events only say which key to look at, never what to do. A key that
//! fails is tried again with growing delays, a key that panics likewise, and no key is ever worked on
//! twice at the same time. An idle cluster costs nothing but a renewed watch every few minutes.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use coracle_runtime::informer::MetadataOnly;
//! use coracle_runtime::{Action, ClusterId, Controller, Informer, Manager, ObjectKey, Reconcile, Selection};
//! use k8s_openapi::api::core::v1::Namespace;
//! use tokio_util::sync::CancellationToken;
//!
//! struct Greeter {
//!     namespaces: Informer<MetadataOnly>,
//! }
//!
//! impl Reconcile for Greeter {
//!     type Error = Infallible;
//!
//!     async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Infallible> {
//!         if self.namespaces.store().get(key).is_some() {
//!             println!("hello, {key}");
//!         }
//!         Ok(Action::AwaitChange)
//!     }
//! }
//!
//! async fn greet(client: kube::Client, stop: CancellationToken) {
//!     let mut manager = Manager::new(client, ClusterId::default());
//!     let namespaces = manager.informer(Selection::of::<Namespace>().metadata_only());
//!     let greeter = Controller::new("greeter", Greeter { namespaces: namespaces.clone() })
//!         .watches(&namespaces, |change| [change.key.clone()])
//!         .workers(2);
//!     manager.add(greeter);
//!     manager.run(stop).await;
//! }
//! ```

mod controller;
mod deleted_cluster;
mod dynamic;
mod idle;
pub mod informer;
mod key;
pub mod lease;
mod manager;
mod metrics;
mod objects;
mod own_writes;
mod program;
pub mod queue;
mod recorder;
mod response;

pub use controller::{Action, Controller, Reconcile};
pub use deleted_cluster::cluster_not_found;
pub use dynamic::{Dynamic, Following};
pub use idle::{Idle, IdleReport};
pub use informer::{Change, Consumer, Informer, Selection};
pub use key::{ClusterId, ObjectKey};
pub use lease::{LeaderLease, LeaseTerm};
pub use manager::{Manager, ReconcileError};
pub use objects::{Objects, ResourcePath, Written, WrittenMetadata};
pub use own_writes::{Behind, OwnWrites};
pub use program::{Activity, Program};
pub use queue::Queue;
pub use recorder::{EventType, EventsRecorder, Occurrence, Recorder, Reference};
