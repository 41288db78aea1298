//! The [`Kind`] trait: the declaration of a kind, and the hooks of the life cycle for its objects.
//!
//! Built-in kinds are static values; kinds of CustomResourceDefinitions are one more implementation of the same
//! trait. All hooks have a default that does nothing, so a plain kind implements none of them.

mod column;
mod declaration;
mod namespace_label;
mod subresource;
mod verbs;

pub use column::Column;
pub use declaration::{
    Declaration, DeletionRule, Generation, NameRule, Scope, StatusMetadata, StoredAs, texts,
};
pub use namespace_label::NamespaceLabel;
pub use subresource::Subresource;
pub use verbs::Verbs;

use std::borrow::Cow;

use coracle_api::codec::{DecodeError, Decoded, json};
use coracle_api::schema::{TypeId, types};
use coracle_crd::OpenApi;
use coracle_meta::apply::FieldFilter;
use coracle_meta::field::ErrorList;
use coracle_meta::table::TableRowCondition;
use coracle_meta::time::Time;
use coracle_store::{Entry, Revision};
use serde_json::Value;

use crate::allocation::{Allocation, Pool, Unallocated};
use crate::form::ObjectSchema;
use crate::identity::Identity;
use crate::network::AddressRange;

#[cfg(any(test, feature = "samples"))]
use crate::samples::{Samples, Stored, Warned};

/// A kind of objects: its declaration, and hooks that the generic life cycle calls.
///
/// Objects are decoded before a hook sees them: unknown fields and nulls are removed, and all values have the types
/// of the schema. Hooks may rely on this and on nothing else: any field may be absent.
pub trait Kind: Send + Sync {
    /// The declaration of the kind.
    fn declaration(&self) -> &Declaration;

    /// Type of its objects in a version, for the codecs; none if objects are encoded in JSON and YAML only.
    fn type_id(&self, version: &str) -> Option<TypeId> {
        let declaration = self.declaration();
        types().kind(&declaration.group, version, &declaration.kind)
    }

    /// Schema of its objects in a version, by which patches and server-side apply traverse them; none if there is no
    /// schema.
    fn schema(&self, version: &str) -> Option<ObjectSchema<'_>> {
        self.type_id(version).map(ObjectSchema::of_type)
    }

    /// Converts an object that was decoded without its type, or changed by a patch, into the form that its type
    /// requires, and reports the problems that strict field validation rejects.
    ///
    /// # Errors
    /// If a value does not have the type of its field.
    fn conform(&self, version: &str, object: Value) -> Result<Decoded, DecodeError> {
        match self.type_id(version) {
            Some(id) => json::conform(object, id),
            None => Ok(Decoded { object, problems: Vec::new() }),
        }
    }

    /// Whether the versions of this kind differ in `apiVersion` only, so that managed fields of one version are valid
    /// in another.
    fn versions_alike(&self) -> bool {
        false
    }

    /// Whether hooks and clients see the stored bytes of an object unchanged. `written_at` is the revision at which
    /// it was written. If false, [`Kind::read_stored`] converts the object.
    fn reads_as_stored(&self, json: &[u8], written_at: Revision) -> bool {
        let _ = (json, written_at);
        true
    }

    /// Converts a stored object into the form that hooks and clients see. Called only if [`Kind::reads_as_stored`]
    /// returns false.
    fn read_stored(&self, stored: Value) -> Value {
        stored
    }

    /// Converts an object into the form in which it is stored.
    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(object)
    }

    /// Sets the defaults of fields that the client left out. Must be idempotent.
    fn set_defaults(&self, object: &mut Value) {
        let _ = object;
    }

    /// Sets times that default to the time of the write. Called after [`Kind::set_defaults`].
    fn set_default_times(&self, object: &mut Value, now: Time) {
        let _ = (object, now);
    }

    /// Why objects of this kind cannot be created at present; none if they can.
    fn creation_refused(&self) -> Option<&'static str> {
        None
    }

    /// Sets the initial values of a new object, after defaults and before validation. If the kind has a status
    /// subresource, the status that the client sent has already been dropped.
    fn prepare_for_create(&self, object: &mut Value, now: Time) {
        let _ = (object, now);
    }

    /// Prepares a new object that the client sent without labels. Called before [`Kind::prepare_for_create`].
    fn prepare_unlabelled(&self, object: &mut Value) {
        let _ = object;
    }

    /// Warnings for a new object that must be computed before [`Kind::prepare_for_create`] changes it, such as one
    /// about an annotation that is copied into a field.
    fn warnings_before_create(&self, object: &Value) -> Vec<String> {
        let _ = object;
        Vec::new()
    }

    /// Records the user who creates an object, for kinds that store it.
    fn note_requester(&self, object: &mut Value, requester: &Identity) {
        let _ = (object, requester);
    }

    /// Restores fields that an update may not change. If the kind has a status subresource, the status has already
    /// been restored from the old object.
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        let _ = (new, old);
    }

    /// The same for an update of the status subresource. Everything but the status has already been restored from the
    /// old object.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, now: Time) {
        let _ = (new, old, now);
    }

    /// The same for an update of another subresource whose body is the whole object, such as `finalize`. Only the
    /// metadata that the server manages has been restored from the old object.
    fn prepare_for_part_update(&self, part: &str, new: &mut Value, old: &Value, now: Time) {
        let _ = (part, new, old, now);
    }

    /// The kind whose objects define the IP ranges from which this kind allocates.
    fn ranges_from(&self) -> Option<&'static dyn Kind> {
        None
    }

    /// IP ranges that an object of such a kind defines and that can be allocated from at present.
    fn ranges(&self, object: &Value) -> Vec<AddressRange> {
        let _ = object;
        Vec::new()
    }

    /// Allocates values that only one object can hold, such as the IP of a Service, and writes them into the object.
    /// Called after preparation, and again with an updated pool after a conflict with a concurrent allocation; see
    /// [`crate::allocation`].
    fn allocate(&self, new: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Unallocated> {
        let _ = (new, old, pool);
        Ok(())
    }

    /// Allocations that an object holds. They are released when it is deleted.
    fn allocations(&self, object: &Value) -> Vec<Allocation> {
        let _ = object;
        Vec::new()
    }

    /// Returns the label that the namespace must have for a create, or an update of `old` or its subresource, if any.
    fn needed_namespace_label(
        &self,
        new: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Option<NamespaceLabel> {
        let _ = (new, old, subresource);
        None
    }

    /// Validates an object. The metadata is validated generically for all kinds.
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let _ = (object, errors);
    }

    /// Additional validation of new objects, beyond [`Kind::validate`]: rules that existing objects need not satisfy.
    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let _ = (object, errors);
    }

    /// Validates an object after an update; called instead of [`Kind::validate`]. Ratcheting: an invalid value that
    /// is already stored may stay, as far as the violated rule permits it.
    fn revalidate(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        self.validate(new, &mut found);
        found.forgive(new, old, |old, errors| self.validate(old, errors));
        errors.extend(found);
    }

    /// Validates the change from the old to the new object, such as of immutable fields. Called in addition to
    /// [`Kind::revalidate`].
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (new, old, errors);
    }

    /// Validates an update of the status subresource.
    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (new, old, errors);
    }

    /// Validates an update of another subresource.
    fn validate_part_update(&self, part: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
        let _ = (part, new, old, errors);
    }

    /// Grace period of a deletion, in seconds; none if the object is removed at once without a graceful termination.
    fn deletion_grace_period_s(&self, object: &Value, requested_s: Option<i64>) -> Option<i64> {
        let _ = (object, requested_s);
        None
    }

    /// Warning for clients that delete an object without a propagation policy.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Marks an object as terminating, beyond its metadata, such as in its status.
    fn begin_deletion(&self, object: &mut Value) {
        let _ = object;
    }

    /// Whether something besides finalizers keeps a terminating object in the store.
    fn is_held(&self, object: &Value) -> bool {
        let _ = object;
        false
    }

    /// Converts an object from a served version into the stored form, which is the form that hooks see. Called only
    /// if [`Declaration::is_converted`] returns true.
    fn convert_in(&self, version: &str, object: Value) -> Value {
        let _ = version;
        object
    }

    /// Converts an object from the stored form into a served version.
    fn convert_out(&self, version: &str, object: Value) -> Value {
        let _ = version;
        object
    }

    /// Fields that a write to a subresource never changes, whatever the body says, so that no manager gets to own
    /// them. An empty name stands for the object itself. None for the default: the status, or everything but the
    /// status.
    fn untouched(&self, part: &str) -> Option<FieldFilter> {
        let _ = part;
        None
    }

    /// Warnings for the client about valid but questionable values.
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (new, old);
        Vec::new()
    }

    /// Warnings for the client about an update of the status subresource.
    fn status_warnings(&self, new: &Value) -> Vec<String> {
        let _ = new;
        Vec::new()
    }

    /// Value of a field for field selectors. Called only for names in [`Declaration::selectable_fields`].
    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        let _ = (object, field);
        Cow::Borrowed("")
    }

    /// Cells of the object's row in a table, one for each of [`Declaration::columns`]. `now` is in seconds since the
    /// epoch.
    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        crate::view::name_and_age(object, now)
    }

    /// Sort key of the rows of a table; none if they are sorted by name only.
    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        None
    }

    /// Conditions of the object's row in a table, such as that it has completed.
    fn row_conditions(&self, object: &Value) -> Vec<TableRowCondition> {
        let _ = object;
        Vec::new()
    }

    /// Verbs in the order in which discovery lists them.
    fn told_verbs(&self) -> Vec<&'static str> {
        self.declaration().verbs.names().collect()
    }

    /// OpenAPI definitions of objects and lists by their names, for kinds whose definitions do not follow from their
    /// type.
    fn definitions(&self, open_api: OpenApi) -> Vec<(String, Value)> {
        let _ = open_api;
        Vec::new()
    }

    /// A hash of [`Kind::definitions`], which differs whenever they do.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Key of the object that defines this kind, such as a CustomResourceDefinition; none for built-in kinds.
    fn depends_on(&self) -> Option<String> {
        None
    }

    /// Whether the stored object at that key still defines the kind as it is here. Watches of objects end when it
    /// does not.
    fn holds_with(&self, entry: &Entry) -> bool {
        let _ = entry;
        true
    }

    /// Example objects for the tests that loop over all kinds.
    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> Samples;

    /// Example objects that were stored before a stricter rule existed.
    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<Stored> {
        Vec::new()
    }

    /// Example writes for which the client gets a warning.
    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<Warned> {
        Vec::new()
    }
}
