//! Declaration of a kind as data: names, versions, scope, storage and rules of the life cycle.

use std::borrow::Cow;
use std::time::Duration;

use super::{Column, Subresource, Verbs};

/// Declaration of a kind: names, verbs, subresources, and the rules that the generic life cycle applies to its
/// objects.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The versions served, the preferred one first. Objects are stored in the first.
    pub versions: Vec<Cow<'static, str>>,
    /// Kind, such as `ConfigMap`.
    pub kind: Cow<'static, str>,
    /// Plural name, as in paths, such as `configmaps`.
    pub plural: Cow<'static, str>,
    /// Singular name, such as `configmap`.
    pub singular: Cow<'static, str>,
    /// Kind of lists, if it is not the kind with `List` appended, such as `ConfigMapList`.
    pub list_kind: Option<Cow<'static, str>>,
    /// Short names for kubectl, such as `cm`.
    pub short_names: Vec<Cow<'static, str>>,
    /// Categories of resources to which the kind belongs, such as `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Whether objects are namespaced.
    pub scope: Scope,
    /// True for kinds that a CustomResourceDefinition defines. kube-apiserver serves all custom kinds with one
    /// handler, whose errors for unsupported requests differ from those of built-in kinds, each of whose paths is a
    /// route of its own.
    pub is_custom: bool,
    /// Verbs of the resource itself; subresources have their own.
    pub verbs: Verbs,
    /// Subresources, in the order of discovery: mostly alphabetical.
    pub subresources: Vec<Subresource>,
    /// Rule for the names of objects.
    pub names: NameRule,
    /// Whether a new object without `name` and `generateName` gets a random UUID as its name.
    pub uuid_as_default_name: bool,
    /// Whether finalizers outside those of Kubernetes itself must have a domain prefix. kube-apiserver checks this
    /// per kind and omits the check for some.
    pub prefixed_finalizers: bool,
    /// Whether an update reports changes of immutable metadata twice: kube-apiserver checks them for all kinds, and
    /// once more in the validation of most kinds.
    pub checks_metadata_change_again: bool,
    /// Number of times an update validates the metadata of the whole object again, after the check for all kinds:
    /// kube-apiserver validates the whole object for some kinds, and only the changes for others.
    pub metadata_checks: usize,
    /// Changes that increment `metadata.generation`.
    pub generation: Generation,
    /// Whether a new object keeps the status that the client sent.
    pub keeps_status_on_create: bool,
    /// Metadata that a write to the status subresource may change.
    pub status_metadata: StatusMetadata,
    /// Deprecation warning for clients that still use this version.
    pub deprecated: Option<Cow<'static, str>>,
    /// Time after the last write at which the store deletes an object; never if none.
    pub time_to_live: Option<Duration>,
    /// Kind and version under which objects are stored, if not under the first version of this kind. They are then
    /// objects of another kind in another representation.
    pub stored_as: Option<StoredAs>,
    /// Whether an update reports changes of immutable fields before errors of the object as a whole, as
    /// kube-apiserver does for this kind.
    pub reports_changes_first: bool,
    /// An annotation that kube-apiserver keeps in a field of its internal type, so that it is absent where only the
    /// metadata is shown.
    pub internal_annotation: Option<&'static str>,
    /// Whether a PUT without a resourceVersion overwrites any existing version of the object.
    pub unconditional_update: bool,
    /// Whether a PUT to a name that does not exist creates the object.
    pub create_on_update: bool,
    /// Default propagation policy of a deletion: dependents are orphaned if true, deleted otherwise.
    pub orphans_by_default: bool,
    /// Rules for the first deletion request of an object.
    pub deletion: DeletionRule,
    /// Whether deletion ignores the propagation policy of the client. The garbage collector does not watch objects of
    /// this kind, so nothing would remove its finalizer.
    pub ignores_propagation: bool,
    /// Whether a deletion returns the object instead of a Status.
    pub deletion_returns_object: bool,
    /// Fields for field selectors, besides `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<Cow<'static, str>>,
    /// Columns of tables.
    pub columns: Vec<Column>,
    /// Hash by which clients detect a change of the storage version: eight bytes in base64, as discovery publishes
    /// it.
    pub storage_version_hash: Cow<'static, str>,
}

/// Rules for the first deletion request of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionRule {
    /// The rules that apply to all kinds.
    Generic,
    /// The rules for namespaces: a failed precondition has another message.
    Namespace,
    /// The rules for CustomResourceDefinitions: as for namespaces, and the first request sets neither a grace period
    /// nor a finalizer for dependents.
    Definition,
}

impl Declaration {
    /// A declaration with the most common settings; kinds override some of them by struct update.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        versions: &[&'static str],
        kind: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
        singular: impl Into<Cow<'static, str>>,
        scope: Scope,
    ) -> Self {
        Self {
            group: group.into(),
            versions: texts(versions),
            kind: kind.into(),
            plural: plural.into(),
            singular: singular.into(),
            list_kind: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            is_custom: false,
            verbs: Verbs::ALL,
            subresources: Vec::new(),
            names: NameRule::DnsSubdomain,
            uuid_as_default_name: false,
            prefixed_finalizers: true,
            checks_metadata_change_again: true,
            metadata_checks: 0,
            generation: Generation::Untracked,
            keeps_status_on_create: false,
            status_metadata: StatusMetadata::Written,
            deprecated: None,
            time_to_live: None,
            stored_as: None,
            reports_changes_first: false,
            internal_annotation: None,
            unconditional_update: true,
            create_on_update: false,
            orphans_by_default: false,
            deletion: DeletionRule::Generic,
            ignores_propagation: false,
            deletion_returns_object: false,
            selectable_fields: Vec::new(),
            columns: vec![Column::name(), Column::age()],
            storage_version_hash: Cow::Borrowed(""),
        }
    }

    /// The kind of lists of its objects: `list_kind` if it is set, otherwise the kind with `List` appended.
    pub fn list_kind(&self) -> Cow<'_, str> {
        match &self.list_kind {
            Some(kind) => Cow::Borrowed(kind),
            None => Cow::Owned(format!("{}List", self.kind)),
        }
    }

    /// Whether the kind has this name and serves this version.
    pub fn is_named(&self, group: &str, version: &str, kind: &str) -> bool {
        self.kind == kind && self.group == group && self.versions.iter().any(|served| served == version)
    }

    /// Whether the kind has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The group and version in which objects are stored, such as `apps/v1`.
    pub fn storage_api_version(&self) -> String {
        let (group, version) = match &self.stored_as {
            Some(stored) => (&stored.group, Some(&stored.version)),
            None => (&self.group, self.versions.first()),
        };
        let version = version.map_or("", |version| version);
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    /// Whether objects of this version differ from their stored form, so that they need conversion.
    pub fn is_converted(&self, version: &str) -> bool {
        self.stored_as.is_some() || self.versions.first().is_none_or(|first| first != version)
    }

    /// Plural name and group, such as `deployments.apps` or `pods`.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// Metadata that a write to the status subresource may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadata {
    /// All metadata that clients may write.
    Written,
    /// All metadata that clients may write, except for these fields.
    WrittenBut(&'static [&'static str]),
    /// No metadata.
    Kept,
}

impl StatusMetadata {
    /// Metadata fields that clients may write.
    const OF_CLIENTS: &'static [&'static str] = &["labels", "annotations", "finalizers", "ownerReferences"];

    /// Metadata fields that a write to the status subresource leaves unchanged.
    pub fn kept_fields(self) -> &'static [&'static str] {
        match self {
            Self::Written => &[],
            Self::WrittenBut(fields) => fields,
            Self::Kept => Self::OF_CLIENTS,
        }
    }
}

/// The kind and version under which objects are stored.
#[derive(Clone, Debug)]
pub struct StoredAs {
    /// API group of the stored objects.
    pub group: Cow<'static, str>,
    /// Version of the stored objects.
    pub version: Cow<'static, str>,
}

/// Whether objects are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects are in a namespace.
    Namespaced,
    /// Objects have no namespace.
    Cluster,
}

/// Rule for the names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123): lower-case labels separated by dots, at most 253 characters.
    DnsSubdomain,
    /// The same rule as a declared format (`k8s-long-name`), which does not check the prefix of generated names.
    LongName,
    /// A DNS label (RFC 1123): lower case, at most 63 characters.
    DnsLabel,
    /// A DNS label that begins with a letter (RFC 1035), at most 63 characters.
    Dns1035Label,
    /// Any name that is a valid path segment.
    PathSegment,
    /// An IP address in its canonical form.
    IpAddress,
}

/// The changes that increment an object's `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// None. A new object keeps the generation that the client sent, as in kube-apiserver.
    Untracked,
    /// A change of its `spec`.
    Spec,
    /// A change of its `spec`; a new object keeps the generation that the client sent.
    SpecOnUpdate,
    /// A change of its `spec` or of an annotation.
    SpecAndAnnotations,
    /// A change of anything but metadata and status.
    Content,
    /// A change of anything but metadata and status, or of a label.
    ContentAndLabels,
    /// A change of anything but metadata.
    All,
}

impl Generation {
    /// Whether a new object gets generation 1.
    pub fn starts_at_one(self) -> bool {
        !matches!(self, Self::Untracked | Self::SpecOnUpdate)
    }
}

/// Static strings as the fields of a [`Declaration`] need them.
pub fn texts(texts: &[&'static str]) -> Vec<Cow<'static, str>> {
    texts.iter().map(|text| Cow::Borrowed(*text)).collect()
}
