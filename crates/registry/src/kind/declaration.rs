//! What a kind is, as data: names, versions, scope, and how its objects are kept.

use std::borrow::Cow;
use std::time::Duration;

use super::{Column, Subresource, Verbs};

/// What a kind is and what it offers.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The versions served, the preferred one first. Objects are stored in the first.
    pub versions: Vec<Cow<'static, str>>,
    /// Such as `ConfigMap`.
    pub kind: Cow<'static, str>,
    /// Such as `configmaps`.
    pub plural: Cow<'static, str>,
    /// Such as `configmap`.
    pub singular: Cow<'static, str>,
    /// Such as `ConfigMapList`, which needs to be said only where it is not that.
    pub list_kind: Option<Cow<'static, str>>,
    /// Such as `cm`.
    pub short_names: Vec<Cow<'static, str>>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// Whether each of its paths is a route of its own. Upstream serves custom kinds by one handler,
    /// which has other words for requests that make no sense.
    pub is_custom: bool,
    /// What can be done with it.
    pub verbs: Verbs,
    /// Parts that can be reached by themselves, in the order in which discovery tells them: mostly that
    /// of their names.
    pub subresources: Vec<Subresource>,
    /// What names may look like.
    pub names: NameRule,
    /// Whether a new object without `name` and `generateName` gets a random UUID as its name.
    pub uuid_as_default_name: bool,
    /// Whether finalizers of its objects that are not those of the system need a prefix. kube-apiserver
    /// checks that for each kind and omits some.
    pub prefixed_finalizers: bool,
    /// Whether an update reports changes of immutable metadata twice: kube-apiserver checks them for all kinds, and
    /// once more in the validation of most.
    pub checks_metadata_change_again: bool,
    /// How often an update checks the metadata of the whole object again, after the check that there is for all kinds:
    /// kube-apiserver validates the whole object for some kinds, and only what has changed for others.
    pub metadata_checks: usize,
    /// What makes its generation grow.
    pub generation: Generation,
    /// Whether a new object keeps the status the client sent.
    pub keeps_status_on_create: bool,
    /// What of the metadata a write to the status changes.
    pub status_metadata: StatusMetadata,
    /// What clients are told who still use it.
    pub deprecated: Option<Cow<'static, str>>,
    /// For how long objects are kept after their last write; for ever if none.
    pub time_to_live: Option<Duration>,
    /// Where and as what objects are stored, if it is not as what the first version says: they
    /// are then the objects of another kind, seen in another way.
    pub stored_as: Option<StoredAs>,
    /// Whether kube-apiserver reports what may not change before what is wrong with the object as a whole.
    pub reports_changes_first: bool,
    /// Whether a PUT without a resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// Whether a PUT to a name that does not exist creates it.
    pub create_on_update: bool,
    /// What happens to dependents when the client does not say: they are deleted, unless this
    /// says that they are orphaned.
    pub orphans_by_default: bool,
    /// How a deletion begins.
    pub deletion: DeletionRule,
    /// Whether deletion ignores what the client says of dependents: the garbage collector does not watch
    /// objects of this kind, so that nothing would remove the finalizer again.
    pub ignores_propagation: bool,
    /// Whether a deletion answers with the object and not with a Status.
    pub deletion_returns_object: bool,
    /// Fields that can be selected by, beyond name and namespace.
    pub selectable_fields: Vec<Cow<'static, str>>,
    /// What a table shows.
    pub columns: Vec<Column>,
    /// Eight bytes in base64 by which clients notice that the storage form changed.
    pub storage_version_hash: Cow<'static, str>,
}

/// How the deletion of an object begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionRule {
    /// By the rules for all kinds.
    Generic,
    /// As that of a namespace: a failed precondition is reported in other words.
    Namespace,
    /// As that of a definition: in addition, the first request sets neither a grace period nor a finalizer for dependents.
    Definition,
}

impl Declaration {
    /// A kind that offers what most do; to be completed by struct update.
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

    /// The kind of lists of its objects.
    pub fn list_kind(&self) -> Cow<'_, str> {
        match &self.list_kind {
            Some(kind) => Cow::Borrowed(kind),
            None => Cow::Owned(format!("{}List", self.kind)),
        }
    }

    /// Whether it is the kind of this name, and served in this version.
    pub fn is_named(&self, group: &str, version: &str, kind: &str) -> bool {
        self.kind == kind && self.group == group && self.versions.iter().any(|served| served == version)
    }

    /// Whether the status is written by itself.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
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

    /// Whether objects of this version look different from how they are stored.
    pub fn is_converted(&self, version: &str) -> bool {
        self.stored_as.is_some() || self.versions.first().is_none_or(|first| first != version)
    }

    /// Such as `deployments.apps`, or `pods`.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// What of the metadata a write to the status changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadata {
    /// All that clients may write.
    Written,
    /// All but these fields.
    WrittenBut(&'static [&'static str]),
    /// Nothing.
    Kept,
}

impl StatusMetadata {
    /// What clients may write of the metadata of an object.
    const OF_CLIENTS: &'static [&'static str] = &["labels", "annotations", "finalizers", "ownerReferences"];

    /// The fields that stay as they are.
    pub fn kept_fields(self) -> &'static [&'static str] {
        match self {
            Self::Written => &[],
            Self::WrittenBut(fields) => fields,
            Self::Kept => Self::OF_CLIENTS,
        }
    }
}

/// The kind as which objects are stored.
#[derive(Clone, Debug)]
pub struct StoredAs {
    /// Its API group.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
}

/// Whether objects live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In one.
    Namespaced,
    /// In none.
    Cluster,
}

/// What names may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case labels with dots between them, 253 characters.
    DnsSubdomain,
    /// The same as a declared format, which does not hold for the prefix of generated names.
    LongName,
    /// One lower-case label, 63 characters.
    DnsLabel,
    /// One label that begins with a letter, 63 characters.
    Dns1035Label,
    /// Whatever fits into a path.
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
    /// Whether creation sets the generation to 1.
    pub fn starts_at_one(self) -> bool {
        !matches!(self, Self::Untracked | Self::SpecOnUpdate)
    }
}

/// Texts that are known beforehand.
pub fn texts(texts: &[&'static str]) -> Vec<Cow<'static, str>> {
    texts.iter().map(|text| Cow::Borrowed(*text)).collect()
}
