//! What a kind says of itself, and what it does with its objects.
//!
//! Built-in kinds are static values; custom kinds are one more implementation of the same trait. Hooks do nothing unless a kind says otherwise, so a plain kind has none.

use std::borrow::Cow;
use std::time::Duration;

use coracle_api::codec::{DecodeError, Decoded, json};
use coracle_api::schema::{TypeId, types};
use coracle_crd::OpenApi;
use coracle_meta::apply::FieldFilter;
use coracle_meta::field::ErrorList;
use coracle_meta::table::TableRowCondition;
use coracle_meta::time::Time;
use coracle_store::Revision;
use serde_json::Value;

use crate::claim::{Claim, Pool, Unallocated};
use crate::form::ObjectSchema;
use crate::identity::Identity;
use crate::network::AddressRange;
use crate::scale::{ScalePaths, ScaleSelector};

#[cfg(any(test, feature = "samples"))]
use crate::samples::Samples;

/// A kind of objects.
///
/// Objects come here decoded, with unknown fields and nulls removed, and with the types the
/// schema says. Hooks may rely on that and on nothing else: fields may be absent.
pub trait Kind: Send + Sync {
    /// What it is and what it offers.
    fn declaration(&self) -> &Declaration;

    /// The type by which the codecs know its objects in a version; none if they are only told in
    /// JSON and YAML.
    fn type_id(&self, version: &str) -> Option<TypeId> {
        let declaration = self.declaration();
        types().kind(&declaration.group, version, &declaration.kind)
    }

    /// The type by which apply and patches walk its objects in a version, if there is one.
    fn schema(&self, version: &str) -> Option<ObjectSchema<'_>> {
        self.type_id(version).map(ObjectSchema::of_type)
    }

    /// Brings an object of a version that was read without its type, or changed by a patch, into
    /// the form of the type, and tells what a strict reader refuses.
    ///
    /// # Errors
    /// If it has a value that does not fit.
    fn conform(&self, version: &str, object: Value) -> Result<Decoded, DecodeError> {
        match self.type_id(version) {
            Some(id) => json::conform(&object, id),
            None => Ok(Decoded { object, problems: Vec::new() }),
        }
    }

    /// Whether objects of one version are those of any other with another `apiVersion`, so that
    /// owners of fields in one can be told in another.
    fn versions_alike(&self) -> bool {
        false
    }

    /// Whether the bytes of an object that was written at a revision are what is seen of it.
    fn reads_as_stored(&self, json: &[u8], written_at: Revision) -> bool {
        let _ = (json, written_at);
        true
    }

    /// What is seen of a stored object by hooks and clients. Only asked where
    /// [`Kind::reads_as_stored`] denies that it is what is stored.
    fn read_stored(&self, stored: Value) -> Value {
        stored
    }

    /// What is stored of an object.
    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(object)
    }

    /// Fills in what the client left out. Twice is the same as once.
    fn set_defaults(&self, object: &mut Value) {
        let _ = object;
    }

    /// Why there may be no new objects for now, if there may not.
    fn creation_refused(&self) -> Option<&'static str> {
        None
    }

    /// Sets what a new object has to begin with, after defaults and before validation. The
    /// status the client sent has already been dropped where there is a status subresource.
    fn prepare_for_create(&self, object: &mut Value, now: Time) {
        let _ = (object, now);
    }

    /// Notes in a new object who asks for it, where the kind keeps that.
    fn note_requester(&self, object: &mut Value, requester: &Identity) {
        let _ = (object, requester);
    }

    /// Carries over what an update may not touch, beyond the status, which has been carried
    /// over already where there is a status subresource.
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        let _ = (new, old);
    }

    /// The same for a write to the status subresource; everything but the status has already
    /// been carried over.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, now: Time) {
        let _ = (new, old, now);
    }

    /// The same for a write to another subresource whose objects are the whole object, such as
    /// `finalize`. Nothing has been carried over yet but the system's metadata.
    fn prepare_for_part_update(&self, part: &str, new: &mut Value, old: &Value, now: Time) {
        let _ = (part, new, old, now);
    }

    /// The kind whose objects say from which ranges addresses are chosen.
    fn ranges_from(&self) -> Option<&'static dyn Kind> {
        None
    }

    /// The ranges that an object of such a kind says, if they can be used now.
    fn ranges(&self, object: &Value) -> Vec<AddressRange> {
        let _ = object;
        Vec::new()
    }

    /// Takes what an object must have for itself alone, such as a service's address, and writes
    /// it into the object. Asked after preparation, and again with another pool whenever
    /// somebody else was faster; see [`crate::claim`].
    fn allocate(&self, new: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Unallocated> {
        let _ = (new, old, pool);
        Ok(())
    }

    /// What an object holds for itself alone, to be set free when it goes.
    fn claims(&self, object: &Value) -> Vec<Claim> {
        let _ = object;
        Vec::new()
    }

    /// Whether an object may be as it is. Its metadata is checked for all kinds alike.
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let _ = (object, errors);
    }

    /// Whether it may come into being, beyond [`Kind::validate`]: rules that older objects
    /// need not keep to.
    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let _ = (object, errors);
    }

    /// Whether an object may become what it is to become; [`Kind::validate`] is asked too.
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (new, old, errors);
    }

    /// Whether a status may become what it is to become.
    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (new, old, errors);
    }

    /// Whether another part may become what it is to become.
    fn validate_part_update(&self, part: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (part, new, old, errors);
    }

    /// How long an object is given to end when it is deleted; none if it goes at once and
    /// without being told.
    fn deletion_grace_period_s(&self, object: &Value, requested_s: Option<i64>) -> Option<i64> {
        let _ = (object, requested_s);
        None
    }

    /// What a client should know who deletes without saying what is to become of dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Notes in an object that its deletion has begun, beyond its metadata.
    fn begin_deletion(&self, object: &mut Value) {
        let _ = object;
    }

    /// Whether something beyond finalizers keeps an object whose deletion has begun.
    fn is_held(&self, object: &Value) -> bool {
        let _ = object;
        false
    }

    /// An object that came in one of the versions served, in the form in which it is stored.
    /// Only asked where [`Declaration::is_converted`] says so. Hooks see the stored form.
    fn convert_in(&self, version: &str, object: Value) -> Value {
        let _ = version;
        object
    }

    /// The way back.
    fn convert_out(&self, version: &str, object: Value) -> Value {
        let _ = version;
        object
    }

    /// Fields that a write to a part does not touch whatever it says, so that nobody comes to own
    /// them. The object itself is the part without a name. None for what is usual: the status, or
    /// all but the status.
    fn untouched(&self, part: &str) -> Option<FieldFilter> {
        let _ = part;
        None
    }

    /// What the client should know although it is allowed.
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (new, old);
        Vec::new()
    }

    /// The value of a field that can be selected by, beyond name and namespace. Only asked
    /// for names in [`Declaration::selectable_fields`].
    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        let _ = (object, field);
        Cow::Borrowed("")
    }

    /// The cells of its row in a table, one for each of [`Declaration::columns`]; `now` in
    /// seconds since the epoch.
    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        crate::view::name_and_age(object, now)
    }

    /// What is to be said of its row beside the cells.
    fn row_conditions(&self, object: &Value) -> Vec<TableRowCondition> {
        let _ = object;
        Vec::new()
    }

    /// The verbs that discovery tells, in the order in which it does.
    fn told_verbs(&self) -> Vec<&'static str> {
        self.declaration().verbs.names().collect()
    }

    /// What OpenAPI documents say of its objects and of lists of them, by the names of these
    /// definitions, where that is not known from their type.
    fn definitions(&self, open_api: OpenApi) -> Vec<(String, Value)> {
        let _ = open_api;
        Vec::new()
    }

    /// Differs whenever [`Kind::definitions`] does.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Examples that the tests loop over.
    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> Samples;
}

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
    pub routed: bool,
    /// What can be done with it.
    pub verbs: Verbs,
    /// Parts that can be reached by themselves, in the order in which discovery tells them: mostly that
    /// of their names.
    pub subresources: Vec<Subresource>,
    /// What names may look like.
    pub names: NameRule,
    /// Whether finalizers of its objects that are not those of the system need a prefix. Upstream
    /// asks that, and once more what may change in metadata, for each kind, and forgets some.
    pub prefixed_finalizers: bool,
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
    /// Whether a PUT without a resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// Whether a PUT to a name that does not exist creates it.
    pub create_on_update: bool,
    /// What happens to dependents when the client does not say: they are deleted, unless this
    /// says that they are orphaned.
    pub orphans_by_default: bool,
    /// Whether a deletion answers with the object and not with a Status.
    pub deletion_returns_object: bool,
    /// Fields that can be selected by, beyond name and namespace.
    pub selectable_fields: Vec<Cow<'static, str>>,
    /// What a table shows.
    pub columns: Vec<Column>,
    /// Eight bytes in base64 by which clients notice that the storage form changed.
    pub storage_version_hash: Cow<'static, str>,
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
            routed: true,
            verbs: Verbs::ALL,
            subresources: Vec::new(),
            names: NameRule::DnsSubdomain,
            prefixed_finalizers: true,
            generation: Generation::Untracked,
            keeps_status_on_create: false,
            status_metadata: StatusMetadata::Written,
            deprecated: None,
            time_to_live: None,
            stored_as: None,
            unconditional_update: true,
            create_on_update: false,
            orphans_by_default: false,
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
    /// One lower-case label, 63 characters.
    DnsLabel,
    /// One label that begins with a letter, 63 characters.
    Dns1035Label,
    /// Whatever fits into a path.
    PathSegment,
    /// An IP address in its canonical form.
    IpAddress,
}

/// What makes an object's generation grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Nothing: it has none.
    Untracked,
    /// A change of its `spec`.
    Spec,
    /// A change of its `spec` or of an annotation.
    SpecAndAnnotations,
    /// A change of anything but metadata and status.
    Content,
    /// A change of anything but metadata and status, or of a label.
    ContentAndLabels,
    /// A change of anything but metadata.
    All,
}

/// What can be done with objects of a kind: a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// POST.
    pub const CREATE: Verbs = Verbs(1);
    /// DELETE of one.
    pub const DELETE: Verbs = Verbs(1 << 1);
    /// DELETE of many.
    pub const DELETE_COLLECTION: Verbs = Verbs(1 << 2);
    /// GET of one.
    pub const GET: Verbs = Verbs(1 << 3);
    /// GET of many.
    pub const LIST: Verbs = Verbs(1 << 4);
    /// PATCH.
    pub const PATCH: Verbs = Verbs(1 << 5);
    /// PUT.
    pub const UPDATE: Verbs = Verbs(1 << 6);
    /// GET of changes.
    pub const WATCH: Verbs = Verbs(1 << 7);
    /// All of them.
    pub const ALL: Verbs = Verbs(0xff);
    /// GET, PATCH and PUT: what a status subresource offers.
    pub const STATUS: Verbs = Verbs::GET.with(Verbs::PATCH).with(Verbs::UPDATE);

    /// In the order in which discovery lists them, which is that of the alphabet.
    const NAMES: [&'static str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    /// These but not those.
    #[must_use]
    pub const fn without(self, other: Verbs) -> Verbs {
        Verbs(self.0 & !other.0)
    }

    /// Whether all of those are among these.
    pub const fn contain(self, other: Verbs) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names, ascending.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, name)| name)
    }
}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// A part of an object, or something done with it, that has a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Such as `status`.
    pub name: Cow<'static, str>,
    /// What is sent there; may be of another group, such as a Scale.
    pub kind: Cow<'static, str>,
    /// The group and version of that kind, where it is not the resource's own.
    pub group_version: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// What can be done there.
    pub verbs: Verbs,
    /// Where objects have their scale, if this is it.
    pub scale: Option<ScalePaths>,
}

impl Subresource {
    /// The status of a kind.
    pub fn status(kind: impl Into<Cow<'static, str>>) -> Self {
        Self::new("status", kind, Verbs::STATUS)
    }

    /// The scale of a kind that counts what a `LabelSelector` selects.
    pub fn scale() -> Self {
        Self::scale_at(ScalePaths::usual(ScaleSelector::LabelSelector))
    }

    /// The scale of a kind whose objects have it there.
    pub fn scale_at(paths: ScalePaths) -> Self {
        let group_version = Some((Cow::Borrowed("autoscaling"), Cow::Borrowed("v1")));
        Self { group_version, scale: Some(paths), ..Self::new("scale", "Scale", Verbs::STATUS) }
    }

    /// Something else.
    pub fn new(name: &'static str, kind: impl Into<Cow<'static, str>>, verbs: Verbs) -> Self {
        Self { name: Cow::Borrowed(name), kind: kind.into(), group_version: None, verbs, scale: None }
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// What stands above it.
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `boolean`…
    pub value_type: Cow<'static, str>,
    /// `name` for the name, else empty.
    pub format: Cow<'static, str>,
    /// What it means.
    pub description: Cow<'static, str>,
    /// 0 is always shown, 1 only when asked for more.
    pub priority: i32,
}

impl Column {
    /// The object's name.
    pub fn name() -> Self {
        let format = Cow::Borrowed("name");
        Self { format, ..Self::text("Name", "the name of the object, unique in its namespace") }
    }

    /// How long it has existed.
    pub fn age() -> Self {
        Self::text("Age", "how long the object has existed")
    }

    /// Some text.
    pub fn text(name: &'static str, description: &'static str) -> Self {
        Self::of_type("string", name, description)
    }

    /// A whole number.
    pub fn integer(name: &'static str, description: &'static str) -> Self {
        Self::of_type("integer", name, description)
    }

    /// True or false.
    pub fn boolean(name: &'static str, description: &'static str) -> Self {
        Self::of_type("boolean", name, description)
    }

    /// The same, shown only when asked for more.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    fn of_type(value_type: &'static str, name: &'static str, description: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value_type: Cow::Borrowed(value_type),
            format: Cow::Borrowed(""),
            description: Cow::Borrowed(description),
            priority: 0,
        }
    }
}

/// Texts that are known beforehand.
pub fn texts(texts: &[&'static str]) -> Vec<Cow<'static, str>> {
    texts.iter().map(|text| Cow::Borrowed(*text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_listed_in_the_order_of_the_alphabet() {
        let names: Vec<_> = Verbs::ALL.names().collect();
        assert!(names.is_sorted() && names.len() == 8);
        assert_eq!(Verbs::STATUS.names().collect::<Vec<_>>(), ["get", "patch", "update"]);
        assert!(!Verbs::ALL.without(Verbs::WATCH).contain(Verbs::WATCH));
    }
}
