//! What a kind says of itself, and what it does with its objects.
//!
//! Built-in kinds are static values; custom kinds are one more implementation of the same trait. Hooks do nothing unless a kind says otherwise, so a plain kind has none.

mod column;
mod declaration;
mod subresource;
mod verbs;

pub use column::Column;
pub use declaration::{
    Declaration, DeletionRule, Generation, NameRule, Scope, StatusMetadata, StoredAs, texts,
};
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
            Some(id) => json::conform(object, id),
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

    /// Sets the times that default to the time of the write. Called after [`Kind::set_defaults`].
    fn set_default_times(&self, object: &mut Value, now: Time) {
        let _ = (object, now);
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

    /// Prepares a new object that the client sent without labels, before [`Kind::prepare_for_create`].
    fn prepare_unlabelled(&self, object: &mut Value) {
        let _ = object;
    }

    /// Warnings about a new object that [`Kind::prepare_for_create`] makes unrecognizable, such as
    /// an annotation that it copies into a field.
    fn warnings_before_create(&self, object: &Value) -> Vec<String> {
        let _ = object;
        Vec::new()
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
    /// somebody else was faster; see [`crate::allocation`].
    fn allocate(&self, new: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Unallocated> {
        let _ = (new, old, pool);
        Ok(())
    }

    /// What an object holds for itself alone, to be set free when it goes.
    fn allocations(&self, object: &Value) -> Vec<Allocation> {
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

    /// Whether an object may be as it is after an update, asked instead of [`Kind::validate`]: what
    /// was stored before there was a rule against it may stay as far as the rule says.
    fn revalidate(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        self.validate(new, &mut found);
        found.forgive(new, old, |old, errors| self.validate(old, errors));
        errors.extend(found);
    }

    /// Whether an object may become what it is to become; [`Kind::revalidate`] is asked too.
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

    /// The same for a write to the status subresource.
    fn status_warnings(&self, new: &Value) -> Vec<String> {
        let _ = new;
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

    /// The number by which the rows of a table are sorted, if they are not only sorted by name.
    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        None
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

    /// The key of the object that says what this kind is, if one does.
    fn depends_on(&self) -> Option<String> {
        None
    }

    /// Whether that object, as it is stored, says what it said when this kind was made of it. Watches
    /// of objects end when it does not.
    fn holds_with(&self, entry: &Entry) -> bool {
        let _ = entry;
        true
    }

    /// Examples that the tests loop over.
    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> Samples;

    /// Examples of objects that were stored before there were rules against them.
    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<Stored> {
        Vec::new()
    }

    /// Examples of writes of which the client is warned.
    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<Warned> {
        Vec::new()
    }
}
