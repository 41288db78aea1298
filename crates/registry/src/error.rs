//! What a life cycle may refuse, with the data a caller needs to say so. Which status code
//! each becomes is decided in the API server alone.

use coracle_meta::apply::Conflicts;
use coracle_meta::field::ErrorList;
use coracle_meta::gvk::{GroupKind, GroupResource};
use coracle_meta::object::NamespaceMismatch;
use coracle_meta::status::Status;
use coracle_store::Revision;

use crate::clusters::RECORDS;
use crate::kind::Declaration;

/// The registry's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The collection.
    pub resource: GroupResource,
    /// The kind.
    pub kind: GroupKind,
    /// The object's name; empty for the collection.
    pub name: String,
}

impl Subject {
    /// An object of a kind.
    pub fn of(declaration: &Declaration, name: &str) -> Self {
        // kube-apiserver names the group in which it stores the kind, as for Event of events.k8s.io.
        let stored = declaration.stored_as.as_ref().map_or(&declaration.group, |stored| &stored.group);
        Self {
            resource: GroupResource {
                group: declaration.group.clone(),
                resource: declaration.plural.clone(),
            },
            kind: GroupKind { group: stored.clone(), kind: declaration.kind.clone() },
            name: name.to_owned(),
        }
    }
}

/// Every refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such object.
    #[error("{} {:?} does not exist", .0.resource, .0.name)]
    NotFound(Box<Subject>),
    /// There is one already.
    #[error("{} {:?} exists already", .0.resource, .0.name)]
    AlreadyExists(Box<Subject>),
    /// There is one still, which is being deleted.
    #[error("{} {:?} exists still", .0.resource, .0.name)]
    BeingDeleted(Box<Subject>),
    /// No name could be found that is free; a later try may have more luck.
    #[error("no free name for {} {:?}", .0.resource, .0.name)]
    NoFreeName(Box<Subject>),
    /// Somebody else has changed the object since the client read it.
    #[error("{} {:?} has been modified", .0.resource, .0.name)]
    Modified(Box<Subject>),
    /// This kind is not updated without saying which state the client has seen.
    #[error("{} {:?} needs a resourceVersion to be updated", .0.resource, .0.name)]
    ResourceVersionRequired(Box<Subject>),
    /// The object is not the one the client meant.
    #[error("{field} of {} {:?} is {found:?} and not {expected:?}", .subject.resource, .subject.name)]
    PreconditionFailed {
        /// The object.
        subject: Box<Subject>,
        /// Where it lives; empty for kinds without namespaces.
        namespace: String,
        /// Whether the write was a dry run.
        dry_run: bool,
        /// `UID` or `ResourceVersion`.
        field: &'static str,
        /// What the client expects.
        expected: String,
        /// What it is.
        found: String,
    },
    /// What is asked for does not fit the state of the object.
    #[error("{} {:?}: {reason}", .subject.resource, .subject.name)]
    Conflict {
        /// The object.
        subject: Box<Subject>,
        /// Why not.
        reason: String,
    },
    /// The object is not one that may be.
    #[error("{} {:?} is invalid: {errors}", .subject.kind, .subject.name)]
    Invalid {
        /// The object.
        subject: Box<Subject>,
        /// What is wrong with it.
        errors: ErrorList,
    },
    /// Somebody who has a say in it does not let it pass.
    #[error("{} {:?} is forbidden: {message}", .subject.resource, .subject.name)]
    Forbidden {
        /// The object.
        subject: Box<Subject>,
        /// Why not.
        message: String,
    },
    /// The object needs something of which there is nothing left.
    #[error("{0}")]
    Exhausted(String),
    /// Somebody who has a say in it does not let it pass, and says how that is to be told.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// Others own what an apply would change.
    #[error(transparent)]
    ApplyConflict(#[from] Conflicts),
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The request makes no sense in a way that upstream takes for a fault of its own.
    #[error("{0}")]
    Unspecific(String),
    /// The body is of another namespace than the path.
    #[error(transparent)]
    NamespaceMismatch(#[from] NamespaceMismatch),
    /// A page was asked for whose revision is no longer kept.
    #[error("the continue token has expired")]
    ContinueExpired {
        /// A token that goes on at the latest revision.
        fresh: String,
    },
    /// The revision asked for is no longer kept.
    #[error("revision {requested} is too old, the oldest kept is {oldest}")]
    Expired {
        /// What was asked for.
        requested: Revision,
        /// The oldest kept.
        oldest: Revision,
    },
    /// The revision asked for has not been made yet.
    #[error("revision {requested} is too large, the latest is {current}")]
    TooLargeRevision {
        /// What was asked for.
        requested: Revision,
        /// The latest.
        current: Revision,
    },
    /// The writer's lease is not its own any more; nothing was written.
    #[error("the lease {lease} is not held by this writer any more")]
    Fenced {
        /// Namespace and name of the lease.
        lease: String,
    },
    /// There is no cluster with this id, or it was deleted before the write was committed; nothing was written.
    #[error("cluster {id:?} not found")]
    UnknownCluster {
        /// The id.
        id: String,
    },
    /// The id is taken.
    #[error("{}", cluster_exists(.id, *.deleting))]
    ClusterExists {
        /// The id.
        id: String,
        /// By a cluster whose objects are still being deleted.
        deleting: bool,
    },
    /// The text cannot be the id of a cluster.
    #[error("{id:?} is not the id of a cluster: {}", .problems.join(", "))]
    InvalidClusterId {
        /// The text.
        id: String,
        /// What is wrong with it.
        problems: Vec<String>,
    },
    /// The default cluster always exists.
    #[error("the default cluster cannot be deleted")]
    DefaultClusterUndeletable,
    /// The cluster stores as much as it may.
    #[error(
        "cluster {id:?} would exceed its limit of {limit} {resource}: it stores {used} and the request adds {growth}; \
         delete objects, or let the operator raise the limit with coracle cluster set-limits {id}"
    )]
    ClusterFull {
        /// The cluster.
        id: String,
        /// `bytes` or `objects`.
        resource: &'static str,
        /// The limit.
        limit: u64,
        /// Stored bytes or objects, with writes in flight.
        used: u64,
        /// Growth by the rejected write.
        growth: u64,
    },
    /// What is stored cannot be read.
    #[error("the stored object at {key} cannot be read: {reason}")]
    Corrupt {
        /// Where it is stored.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] coracle_store::Error),
}

/// A failure of the store that a client can do something about, or should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// The disk is full. The write was not carried out; writes succeed again once there is space.
    DiskFull,
    /// A write or sync of the store's files failed, so all writes are refused until the store is opened again. The one
    /// that met the failure may have been carried out.
    ReadOnly,
    /// The store cannot be reached. Nothing was carried out.
    Unavailable,
    /// The store did not confirm a write, which may have been carried out.
    OutcomeUnknown,
    /// The store is closed, because the server ends. Nothing was carried out.
    Closed,
}

impl Error {
    /// Which failure of the store this is; none if it is another error, or a failure that only an operator understands.
    pub fn store_failure(&self) -> Option<StoreFailure> {
        use coracle_store::Error as Store;
        let Self::Store(error) = self else { return None };
        match error {
            Store::DiskFull { .. } => Some(StoreFailure::DiskFull),
            Store::Poisoned { .. } => Some(StoreFailure::ReadOnly),
            Store::Unavailable(_) => Some(StoreFailure::Unavailable),
            Store::OutcomeUnknown(_) => Some(StoreFailure::OutcomeUnknown),
            Store::Closed => Some(StoreFailure::Closed),
            _ => None,
        }
    }
}

impl From<coracle_store::Error> for Error {
    fn from(error: coracle_store::Error) -> Self {
        use coracle_store::Error as Store;
        match error {
            Store::Compacted { requested, oldest } => Error::Expired { requested, oldest },
            Store::FutureRevision { requested, current } => Error::TooLargeRevision { requested, current },
            Store::GuardLost { guard, key } if key.starts_with(RECORDS.as_bytes()) => {
                Error::UnknownCluster { id: guard.to_string() }
            }
            Store::GuardLost { guard, .. } => Error::Fenced { lease: guard.to_string() },
            other => Error::Store(other),
        }
    }
}

fn cluster_exists(id: &str, deleting: bool) -> String {
    if deleting {
        return format!("cluster {id:?} is being deleted; try again when it is gone");
    }
    format!("cluster {id:?} already exists")
}
