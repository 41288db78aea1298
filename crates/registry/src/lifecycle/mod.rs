//! The generic life cycle of objects of all kinds: create, read, update, delete, list, watch.
//!
//! Kinds customize it through the hooks of [`crate::Kind`]; no code here depends on a particular kind.

mod all_clusters;
mod commit;
mod create;
mod delete;
mod dependency;
mod follow;
mod list;
mod namespace_label;
mod object_identity;
mod owner_references;
mod ownership;
mod prepare;
mod read;
mod rewrite;
mod scale;
mod select;
mod sent_body;
mod update;
mod watch;

pub use all_clusters::{ALL_CLUSTERS, AllClustersPage, Found};
pub use delete::{DeleteOptions, Deletion, Propagation};
pub use follow::{GroupWatch, Place};
pub use list::{ListOptions, Page};
pub use object_identity::ObjectIdentity;
pub use rewrite::Preconditions;
pub use select::Selection;
pub use sent_body::SentBody;
pub use update::{Change, Updated};
pub use watch::{ObjectEvent, ObjectState, ObjectWatch, WatchOptions};

use bytes::Bytes;
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::go_json;
use coracle_meta::gvk::split_api_version;
use coracle_meta::name;
use coracle_meta::object::{Meta, MetaMut, validate_object_meta};
use coracle_store::{Entry, Revision};
use serde_json::Value;

use crate::audit::AuditAnnotations;
use crate::encode::Encoded;
use crate::error::{Error, Result, Subject};
use crate::form::ObjectForm;
use crate::identity::Identity;
use crate::kind::{Declaration, Generation, Kind, NameRule, Scope};

/// Finalizers that are valid without a domain prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// An object that was written, or would have been in a dry run.
#[derive(Clone, Debug)]
pub struct Object {
    /// The JSON of the object.
    pub json: Bytes,
    /// The revision of its last write.
    pub revision: Revision,
}

impl From<&Entry> for Object {
    fn from(entry: &Entry) -> Self {
        Self { json: entry.value(), revision: entry.mod_revision() }
    }
}

/// A write: the kind, the namespace, the user and the options of a request.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The kind.
    pub kind: &'a dyn Kind,
    /// Group and version of the given object, such as `apps/v1`.
    pub api_version: &'a str,
    /// API version of the request, such as `v1`.
    pub served_version: &'a str,
    /// Namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Field manager of the write.
    pub manager: &'a str,
    /// The user.
    pub requester: &'a Identity,
    /// Whether to do everything except to store the result.
    pub dry_run: bool,
    /// Audit annotations of the request, if it is audited.
    pub audit: Option<&'a AuditAnnotations>,
    /// The body of the request, for messages; none if there is no request or it has no object.
    pub sent: Option<&'a dyn SentBody>,
}

impl<'a> Write<'a> {
    /// The form of the given object.
    fn form(&self) -> ObjectForm<'a> {
        ObjectForm::stored(self.kind, split_api_version(self.api_version), self.subresource)
    }

    /// Decodes a stored object into the form that the kind's hooks see.
    fn read(&self, entry: &Entry) -> Result<Value> {
        read(self.kind, entry)
    }

    /// Encodes an object for the store.
    fn encoded(&self, object: &Value) -> Encoded {
        Encoded::of(&self.kind.to_stored(object))
    }

    fn declaration(&self) -> &Declaration {
        self.kind.declaration()
    }

    fn subject(&self, name: &str) -> Box<Subject> {
        Box::new(Subject::of(self.declaration(), name))
    }

    fn is_status(&self) -> bool {
        self.subresource == "status"
    }

    fn check(&self, name: &str, errors: ErrorList) -> Result<()> {
        if errors.is_empty() { Ok(()) } else { Err(Error::Invalid { subject: self.subject(name), errors }) }
    }
}

/// Decodes an entry into a tree, in the stored form.
///
/// # Errors
/// If the entry is not valid JSON.
pub fn tree(entry: &Entry) -> Result<Value> {
    go_json::from_stored(&entry.value_bytes()).map_err(|error| Error::Corrupt {
        key: String::from_utf8_lossy(entry.key()).into_owned(),
        reason: error.to_string(),
    })
}

/// Decodes an entry into a tree, in the form that hooks and clients see.
pub(crate) fn read(kind: &dyn Kind, entry: &Entry) -> Result<Value> {
    let stored = tree(entry)?;
    let as_stored = kind.reads_as_stored(&entry.value_bytes(), entry.mod_revision());
    Ok(if as_stored { stored } else { kind.read_stored(stored) })
}

/// The metadata of an object that is being written; added if it is absent.
fn meta_mut(object: &mut Value) -> Result<MetaMut<'_>> {
    MetaMut::of(object).ok_or_else(|| Error::BadRequest("the object's metadata is not an object".into()))
}

/// Whether an update increments `metadata.generation`.
fn content_changed(generation: Generation, new: &Value, old: &Value) -> bool {
    let spec = || new.get("spec") != old.get("spec");
    match generation {
        Generation::Untracked => false,
        Generation::Spec | Generation::SpecOnUpdate => spec(),
        Generation::SpecAndAnnotations => {
            let annotations = |object| Meta::of(object).annotations().filter(|map| !map.is_empty()).cloned();
            spec() || annotations(new) != annotations(old)
        }
        Generation::Content => content(new).ne(content(old)),
        Generation::All => content(new).ne(content(old)) || new.get("status") != old.get("status"),
        Generation::ContentAndLabels => {
            let labels = |object| Meta::of(object).labels().filter(|map| !map.is_empty()).cloned();
            content(new).ne(content(old)) || labels(new) != labels(old)
        }
    }
}

fn content(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let apart = ["apiVersion", "kind", "metadata", "status"];
    object.as_object().into_iter().flatten().filter(move |(name, _)| !apart.contains(&name.as_str()))
}

/// Validation errors of metadata, including finalizers without a prefix.
fn metadata_errors(declaration: &Declaration, object: &Value) -> ErrorList {
    let mut errors = generic_metadata_errors(declaration, object);
    errors.extend(finalizer_prefix_errors(declaration, object));
    errors
}

/// Validation errors of metadata by the rules for all kinds.
fn generic_metadata_errors(declaration: &Declaration, object: &Value) -> ErrorList {
    let rule = match declaration.names {
        NameRule::DnsSubdomain => name::object_dns_subdomain,
        NameRule::LongName => name::object_long_name,
        NameRule::DnsLabel => name::object_dns_label,
        NameRule::Dns1035Label => name::object_dns1035_label,
        NameRule::PathSegment => name::object_path_segment,
        NameRule::IpAddress => name::object_ip_address,
    };
    let namespaced = declaration.scope == Scope::Namespaced;
    validate_object_meta(Meta::of(object), namespaced, rule, &Path::root("metadata"))
}

/// Errors for finalizers that need a domain prefix and have none.
fn finalizer_prefix_errors(declaration: &Declaration, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !declaration.prefixed_finalizers {
        return errors;
    }
    let path = Path::root("metadata.finalizers");
    for (index, name) in Meta::of(object).finalizers().enumerate() {
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path.index(index), name, detail));
        }
    }
    errors
}

fn check_preconditions(
    write: &Write<'_>,
    name: &str,
    wanted: &Preconditions,
    uid: &str,
    entry: &Entry,
) -> Result<()> {
    let failed = |field, expected: &str, found: &str| Error::PreconditionFailed {
        subject: write.subject(name),
        namespace: write.namespace.to_owned(),
        dry_run: write.dry_run,
        field,
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    if let Some(expected) = wanted.uid.as_deref().filter(|expected| *expected != uid) {
        return Err(failed("UID", expected, uid));
    }
    let revision = entry.mod_revision().to_string();
    if let Some(expected) = wanted.resource_version.as_deref().filter(|expected| *expected != revision) {
        return Err(failed("ResourceVersion", expected, &revision));
    }
    Ok(())
}
