//! The model of a torture run: the requests that clients sent, the state of objects that follows from them, and the rules
//! that lists and watches are checked against. Pure: no clock, no I/O.

mod events;
mod states;
mod views;
mod violation;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use events::{Round, check_round};
pub(crate) use states::PossibleStates;
pub(crate) use views::WatchView;
pub(crate) use violation::{Rule, Violation};

/// The revision of the store at which an object was changed: its `resourceVersion`.
pub(crate) type Revision = u64;

/// The kinds that are written and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::ConfigMap, Kind::Secret];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
        }
    }
}

/// An object that the writers use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// True if several writers change it, so that only revisions order its changes. Otherwise one writer sends its
    /// requests sequentially.
    pub(crate) is_shared: bool,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Content of an object. Each request writes a unique stamp, so that content identifies the request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    /// The stamp of the last change.
    pub(crate) stamp: String,
    /// The stamp of the last create or replace; patches leave it.
    pub(crate) base: String,
}

/// An object as the server returned it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) revision: Revision,
    pub(crate) content: Content,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Content { stamp, base } = &self.content;
        write!(f, "stamp {stamp} on {base} at revision {}", self.revision)
    }
}

/// The objects of the writers in a list or a view of a watch.
pub(crate) type Objects = BTreeMap<ObjectId, Version>;

/// A request that changes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Create(Content),
    /// A PUT, with the `resourceVersion` that the object must have.
    Replace {
        content: Content,
        expected: Option<Revision>,
    },
    /// A merge patch of the stamp.
    Patch {
        stamp: String,
    },
    /// With the `resourceVersion` of the preconditions.
    Delete {
        expected: Option<Revision>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Create(content) => write!(f, "create of {}", content.stamp),
            Change::Replace { content, .. } => write!(f, "replace by {}", content.stamp),
            Change::Patch { stamp } => write!(f, "patch to {stamp}"),
            Change::Delete { .. } => f.write_str("delete"),
        }
    }
}

/// Outcome of a request, as seen by its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The object in the response; none for a delete.
    Acknowledged(Option<Version>),
    Rejected {
        code: u16,
    },
    /// The connection broke, or the server returned 5xx: the change may have been made.
    Unknown,
}

/// One request and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) object: ObjectId,
    pub(crate) change: Change,
    pub(crate) outcome: Outcome,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// A watch event of an object of the writers. For a deletion the content is the last one, and the revision that of the
/// deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) event_type: EventType,
    pub(crate) object: ObjectId,
    pub(crate) version: Version,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_type, object, version } = self;
        write!(f, "{event_type:?} {object} with {version}")
    }
}

/// The events that a watcher received, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    Event(Event),
    /// An event of an object that no writer owns; only its revision matters.
    Foreign(Revision),
    Bookmark(Revision),
    /// A list after 410 Gone. Changes between the last revision and this one are not observed.
    Relist {
        revision: Revision,
        objects: Objects,
    },
}
