//! Runs any controller, Coracle's own and a user's: informers that cache objects, a work queue that deduplicates
//! keys, and a manager that owns the tasks.
//!
//! All access goes through a [`kube::Client`], within one process or over a network. The controllers themselves are
//! in `coracle-controllers`.
//!
//! Reconciling is level-triggered: an event only determines which key to reconcile, never what to do. A key whose
//! reconcile fails or panics is retried with exponential backoff, and no key is ever reconciled twice at the same
//! time. An idle cluster costs no more than renewing each watch every few minutes.
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
pub mod queue;
mod read_your_writes;
mod recorder;
mod response;
mod runnable;

pub use controller::{Action, Controller, Reconcile};
pub use deleted_cluster::cluster_not_found;
pub use dynamic::{DynamicReflectors, ReflectorHandle};
pub use idle::{Idle, IdleReport};
pub use informer::{Change, Consumer, Informer, Selection};
pub use key::{ClusterId, ObjectKey};
pub use lease::{LeaderLease, LeaseTerm};
pub use manager::{Manager, ReconcileError};
pub use objects::{Objects, ResourcePath, Written, WrittenMetadata};
pub use queue::Queue;
pub use read_your_writes::{ReadYourWrites, StaleCache};
pub use recorder::{EventType, EventsRecorder, Occurrence, Recorder, Reference};
pub use runnable::{Quiescence, Runnable};
