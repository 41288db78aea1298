//! Errors of the life cycle, with the data that a caller needs to report them. The API server alone maps them to
//! status codes.

use coracle_meta::apply::Conflicts;
use coracle_meta::field::ErrorList;
use coracle_meta::gvk::{GroupKind, GroupResource};
use coracle_meta::object::NamespaceMismatch;
use coracle_meta::status::Status;
use coracle_store::Revision;

use crate::clusters::RECORDS;
use crate::kind::Declaration;

/// The result of registry operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The object or collection of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The resource.
    pub resource: GroupResource,
    /// The kind.
    pub kind: GroupKind,
    /// The object's name; empty for the whole collection.
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

/// An error of the registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("{} {:?} does not exist", .0.resource, .0.name)]
    NotFound(Box<Subject>),
    /// An object with this name exists already.
    #[error("{} {:?} exists already", .0.resource, .0.name)]
    AlreadyExists(Box<Subject>),
    /// An object with this name exists and is being deleted.
    #[error("{} {:?} exists still", .0.resource, .0.name)]
    BeingDeleted(Box<Subject>),
    /// No unused name was generated; a retry may succeed.
    #[error("no free name for {} {:?}", .0.resource, .0.name)]
    NoFreeName(Box<Subject>),
    /// The object has changed since the client read it.
    #[error("{} {:?} has been modified", .0.resource, .0.name)]
    Modified(Box<Subject>),
    /// An update of this kind must state the resourceVersion that the client has read.
    #[error("{} {:?} needs a resourceVersion to be updated", .0.resource, .0.name)]
    ResourceVersionRequired(Box<Subject>),
    /// A precondition of a deletion or update does not match the object.
    #[error("{field} of {} {:?} is {found:?} and not {expected:?}", .subject.resource, .subject.name)]
    PreconditionFailed {
        /// The object.
        subject: Box<Subject>,
        /// Namespace of the object; empty for cluster-scoped kinds.
        namespace: String,
        /// Whether the write was a dry run.
        dry_run: bool,
        /// `UID` or `ResourceVersion`.
        field: &'static str,
        /// The value in the precondition.
        expected: String,
        /// The value in the object.
        found: String,
    },
    /// The operation conflicts with the state of the object.
    #[error("{} {:?}: {reason}", .subject.resource, .subject.name)]
    Conflict {
        /// The object.
        subject: Box<Subject>,
        /// The reason.
        reason: String,
    },
    /// The object is invalid.
    #[error("{} {:?} is invalid: {errors}", .subject.kind, .subject.name)]
    Invalid {
        /// The object.
        subject: Box<Subject>,
        /// The validation errors.
        errors: ErrorList,
    },
    /// Admission rejects the request.
    #[error("{} {:?} is forbidden: {message}", .subject.resource, .subject.name)]
    Forbidden {
        /// The object.
        subject: Box<Subject>,
        /// The reason.
        message: String,
    },
    /// No value is left to allocate, such as a service IP.
    #[error("{0}")]
    Exhausted(String),
    /// Admission rejects the request with a Status of its own.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// Server-side apply conflicts with other field managers.
    #[error(transparent)]
    ApplyConflict(#[from] Conflicts),
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The request is invalid in a way that kube-apiserver reports as an internal error.
    #[error("{0}")]
    Unspecific(String),
    /// The namespace of the body differs from that of the path.
    #[error(transparent)]
    NamespaceMismatch(#[from] NamespaceMismatch),
    /// The revision of a continue token is compacted.
    #[error("the continue token has expired")]
    ContinueExpired {
        /// A token that continues at the latest revision.
        fresh: String,
    },
    /// The requested revision is compacted.
    #[error("revision {requested} is too old, the oldest kept is {oldest}")]
    Expired {
        /// The requested revision.
        requested: Revision,
        /// The oldest available revision.
        oldest: Revision,
    },
    /// The requested revision does not exist yet.
    #[error("revision {requested} is too large, the latest is {current}")]
    TooLargeRevision {
        /// The requested revision.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The writer does not hold its lease any more; nothing was written.
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
    /// A cluster with this id exists.
    #[error("{}", cluster_exists(.id, *.deleting))]
    ClusterExists {
        /// The id.
        id: String,
        /// Whether the existing cluster is being deleted, because its objects still are.
        deleting: bool,
    },
    /// The id of a cluster is malformed.
    #[error("{id:?} is not the id of a cluster: {}", .problems.join(", "))]
    InvalidClusterId {
        /// The malformed id.
        id: String,
        /// The problems of the id.
        problems: Vec<String>,
    },
    /// The default cluster always exists.
    #[error("the default cluster cannot be deleted")]
    DefaultClusterUndeletable,
    /// The write would exceed the limits of the cluster.
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
    /// A stored object cannot be decoded.
    #[error("the stored object at {key} cannot be read: {reason}")]
    Corrupt {
        /// The key of the object.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] coracle_store::Error),
}

/// A failure of the store that a client can handle, or should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// The disk is full. The write was not carried out; writes succeed again once there is space.
    DiskFull,
    /// A write or sync of the store's files failed, so all writes are rejected until the store is opened again. The
    /// write that met the failure may have been carried out.
    ReadOnly,
    /// The store cannot be reached. Nothing was carried out.
    Unavailable,
    /// The store did not confirm a write, which may have been carried out.
    OutcomeUnknown,
    /// The store is closed because the server is shutting down. Nothing was carried out.
    Closed,
}

impl Error {
    /// The kind of store failure; none for other errors, and for failures that only concern the operator.
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
